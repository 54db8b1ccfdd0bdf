"""When the fused passes of enable_vsa step aside: whatever was changed in a block, or watches its operations, holds."""

import functools

import pytest
import torch
import torch.utils._python_dispatch

pytest.importorskip("diffusers")
from diffusers.models.normalization import FP32LayerNorm  # noqa: E402
from diffusers.models.transformers import transformer_wan  # noqa: E402

from fused_passes import NONE, SETTINGS, own, used  # noqa: E402, F401  a fixture
from tiny_wan import LAYERS, gate_weights, inputs, run, same_output, transformer  # noqa: E402
from vsa_torch.diffusers import _block, enable_vsa  # noqa: E402


def hook_norm(model):
    model.blocks[1].norm2.register_forward_hook(lambda module, args, out: 2 * out)


def replace_norm_forward(model):
    norm = model.blocks[1].norm3
    real = norm.forward
    norm.forward = lambda x: 2 * real(x)


def other_norm(model):
    class Norm(FP32LayerNorm):
        def forward(self, x):
            return 2 * super().forward(x)
    model.blocks[1].norm1 = Norm(32, 1e-6, elementwise_affine=False)


def weighted_norm(model):
    model.blocks[1].norm3 = FP32LayerNorm(32, 1e-6, elementwise_affine=True)
    torch.nn.init.constant_(model.blocks[1].norm3.weight, 2.0)


def no_text_norm(model):
    model.blocks[1].norm2 = torch.nn.Identity()


def subclass(model):
    class Block(transformer_wan.WanTransformerBlock):
        def forward(self, hidden_states, *args):
            return 2 * super().forward(hidden_states, *args)
    model.blocks[1].__class__ = Block


def replaced_forward(model):
    block = model.blocks[1]
    real = type(block).forward
    block.forward = lambda *args: 2 * real(block, *args)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("change", [hook_norm, replace_norm_forward, other_norm, weighted_norm, no_text_norm, subclass,
                                    replaced_forward])
def test_a_changed_block_runs_as_it_is(model, used, change, late):
    plain = own(model)
    other = transformer()
    enable_vsa(other, **SETTINGS["gates"], fused=False)
    change(other)
    want = run(other)
    if not late:
        enable_vsa(model, topk=2, fused=False)
        change(model)
    enable_vsa(model, topk=2)
    if late:
        change(model)
    got, counts = used(lambda: run(model))
    assert counts == {"residual_norm": 4 * (LAYERS - 1), "norm_rope_pool": 2 * LAYERS}
    assert same_output(got, want) and not same_output(got, plain)


def hook_qk_norm(model):
    model.blocks[1].attn1.norm_k.register_forward_hook(lambda module, args, out: 2 * out)


def other_qk_norm(model):
    class Norm(torch.nn.RMSNorm):
        def forward(self, x):
            return 2 * super().forward(x)
    model.blocks[1].attn1.norm_q = Norm(32)


def qk_norm_of_heads(model):
    class Heads(torch.nn.RMSNorm):
        def forward(self, x):
            return super().forward(x.unflatten(2, (2, 16))).flatten(2)
    model.blocks[1].attn1.norm_q = Heads(16)


@pytest.mark.parametrize("change", [hook_qk_norm, other_qk_norm, qk_norm_of_heads])
def test_a_changed_attention_runs_as_it_is(model, used, change):
    plain = own(model)
    change(model)
    want = own(model, dict(topk=2))
    got, counts = used(lambda: run(model))
    assert counts == {"residual_norm": 4 * LAYERS, "norm_rope_pool": 2 * (LAYERS - 1)}
    assert same_output(got, want) and not same_output(got, plain)


def compiled(model):
    torch._dynamo.reset()
    return run(torch.compile(model, fullgraph=True, backend="eager"))


def compiled_blocks(model):
    torch._dynamo.reset()
    for block in model.blocks:
        block.compile(fullgraph=True, backend="eager")
    return run(model)


def forward_itself(model):
    """Without the hooks before a call."""
    with torch.no_grad():
        return model.forward(**inputs())[0]


@pytest.mark.parametrize("way", [run, forward_itself, compiled_blocks])
def test_a_replaced_forward_of_the_class(model, used, monkeypatch, way):
    enable_vsa(model, topk=2)
    real = transformer_wan.WanTransformerBlock.forward
    monkeypatch.setattr(transformer_wan.WanTransformerBlock, "forward", lambda self, *args: 2 * real(self, *args))
    got, counts = used(lambda: way(model))
    enable_vsa(model, topk=2, fused=False)
    assert counts["residual_norm"] == 0 and same_output(got, run(model))


def test_another_version_of_diffusers_is_noticed(model, used, monkeypatch):
    real = transformer_wan.WanTransformerBlock.forward
    for other in (lambda self, *args: 1.001 * real(self, *args), lambda self, x: x, lambda self, x, *args: x[:, 1:]):
        _block._is_known.cache_clear()
        monkeypatch.setattr(_block, "_FORWARD", other)
        monkeypatch.setattr(transformer_wan.WanTransformerBlock, "forward", other)
        enable_vsa(model, topk=2)
        assert not any("forward" in block.__dict__ for block in model.blocks)
    monkeypatch.undo()
    _block._is_known.cache_clear()
    state = torch.random.get_rng_state()
    enable_vsa(model, topk=2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all("forward" in block.__dict__ for block in model.blocks)


def test_gradients_are_those_without_the_passes(model, used):
    def gradients(fused):
        model.zero_grad()
        enable_vsa(model, fused=fused, **SETTINGS["gates"])
        _, counts = used(lambda: (model(**inputs())[0] ** 2).sum().backward())
        assert counts == NONE
        return [parameter.grad for parameter in model.parameters()]
    for got, want in zip(gradients(True), gradients(False)):
        assert torch.equal(got, want)


def under_autocast(model):
    with torch.autocast("cpu", torch.bfloat16):
        return run(model)


class Watching(torch.utils._python_dispatch.TorchDispatchMode):
    """Sees every operation, as counters of operations do."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def counting_operations(model):
    with Watching():
        return run(model)


def hooks_of_all_modules(model):
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, out: None)
    try:
        return run(model)
    finally:
        handle.remove()


def forward_mode(model):
    with torch.autograd.forward_ad.dual_level():
        return run(model)


def steps_for_every_token(model):
    """Wan 2.2 5B: temb has one row for each token."""
    call = inputs()
    call["timestep"] = torch.tensor([0] * 30 + [700] * 60).unsqueeze(0)
    with torch.no_grad():
        return model(**call)[0]


def float64(model):
    return run(model.double(), dtype=torch.float64)


@pytest.mark.parametrize("way", [compiled, compiled_blocks, under_autocast, counting_operations, hooks_of_all_modules,
                                 forward_mode, steps_for_every_token, float64])
def test_calls_that_something_watches(used, way):
    outs = {}
    for fused in (False, True):
        model = transformer()
        enable_vsa(model, fused=fused, **SETTINGS["gates"])
        outs[fused], counts = used(functools.partial(way, model))
        assert counts["residual_norm"] == 0
        assert counts["norm_rope_pool"] == (2 * LAYERS if fused and way is steps_for_every_token else 0)
    assert same_output(outs[True], outs[False])


def test_modules_that_compute_in_another_dtype(used):
    """As some quantised layers do: then the residual is added as in diffusers."""
    model = transformer().to(torch.bfloat16)
    for block in model.blocks:
        block.attn1.to_out[1].register_forward_hook(lambda module, args, out: out.float() * 1.01)
    want = own(model, dict(topk=4, gates=gate_weights()), dtype=torch.bfloat16)
    got, counts = used(lambda: run(model, dtype=torch.bfloat16))
    assert counts["residual_norm"] == 3 * LAYERS and same_output(got, want)


def test_fused_is_a_flag(model):
    with pytest.raises(TypeError, match=r"\[enable_vsa\] fused: expected True or False"):
        enable_vsa(model, topk=1, fused=1)
