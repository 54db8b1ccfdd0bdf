"""The fused passes of enable_vsa: they compute what diffusers' own operations do, and change nothing that others see."""

import copy

import pytest
import torch

pytest.importorskip("diffusers")
from diffusers.models.normalization import FP32LayerNorm  # noqa: E402

from fused_passes import FUSED, NONE, SETTINGS, own, used  # noqa: E402, F401  a fixture
from tiny_wan import LAYERS, gate_weights, generate, inputs, pipeline, run, same_output, transformer  # noqa: E402
from vsa_torch.diffusers import disable_vsa, enable_vsa  # noqa: E402


# --- the numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("settings", SETTINGS)
def test_float32_as_diffusers(model, used, settings, batch):
    want = own(model, SETTINGS[settings], batch=batch)
    got, counts = used(lambda: run(model, batch=batch))
    assert counts == (FUSED if settings != "dense" else dict(FUSED, norm_rope_pool=0))
    assert not torch.equal(got, want), "bits of another order of sums"
    assert (got - want).norm() <= 1e-5 * want.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_near_to_float32_as_diffusers(used, dtype):
    """Both round the same intermediate tensors to the dtype, diffusers q and k once more. So the error against the same
    weights in float32 may not be larger; the factor is for errors that cancel in one of them."""
    model = transformer().to(dtype)
    for module in model.modules():  # as from_pretrained keeps them
        if isinstance(module, FP32LayerNorm):
            module.float()
    model.rope.float()
    exact = copy.deepcopy(model).float()
    zero_gates = {name: torch.zeros_like(tensor) for name, tensor in gate_weights().items()}
    settings = dict(sparsity=0.0, gates=zero_gates)  # VSA with all tiles: no selection that rounding could change
    call = inputs(dtype=dtype)
    call32 = {name: value.float() if name.endswith("hidden_states") else value for name, value in call.items()}
    with torch.no_grad():
        enable_vsa(exact, **settings, fused=False)
        reference = exact(**call32)[0]
    want = own(model, settings, dtype=dtype)
    got, counts = used(lambda: run(model, dtype=dtype))
    assert counts == FUSED
    error, theirs = (((out.float() - reference).norm() / reference.norm()).item() for out in (got, want))
    assert 0 < error <= 1.5 * theirs


@pytest.mark.parametrize("fused_first", [True, False])
def test_fused_projections_of_diffusers(model, used, fused_first):
    want = own(model)
    if fused_first:
        model.fuse_qkv_projections()
    enable_vsa(model, topk=2)
    if not fused_first:
        model.fuse_qkv_projections()
    got, counts = used(lambda: run(model))
    assert counts == FUSED and same_output(got, want)


def test_weights_that_change_are_seen(model, used):
    """Nothing is kept of the weights."""
    enable_vsa(model, **SETTINGS["gates"])
    run(model)
    other = {name: tensor + torch.randn_like(tensor) / 50 for name, tensor in model.state_dict().items()}
    model.load_state_dict(other)
    got = run(model)
    fresh = transformer()
    enable_vsa(fresh, **SETTINGS["gates"])
    assert fresh.state_dict().keys() == other.keys()
    fresh.load_state_dict(other)
    assert same_output(got, run(fresh)) and same_output(got, own(fresh, dict(topk=2)))


# --- what stays as it was -------------------------------------------------------------------------


def test_the_input_of_a_block_is_not_changed(model, used):
    """Caches of diffusers and others keep it."""
    enable_vsa(model, **SETTINGS["gates"])
    kept = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda module, args: kept.append((args[0], args[0].clone())))
    _, counts = used(lambda: run(model))
    assert counts == FUSED and len(kept) == LAYERS
    assert all(torch.equal(now, then) for now, then in kept)


@pytest.mark.parametrize("name", ["to_q", "to_k", "to_v", "norm_q", "to_gate_compress", "to_out"])
def test_what_hooks_inside_the_attention_see_is_not_changed(model, name):
    enable_vsa(model, **SETTINGS["gates"])
    plain, kept = run(model), []
    module = getattr(model.blocks[1].attn1, name)
    module = module[0] if name == "to_out" else module
    module.register_forward_hook(lambda module, args, out: kept.append((args[0], args[0].clone(), out, out.clone())))
    got = run(model)
    assert len(kept) == 1 and same_output(got, plain)
    for inside, inside_then, out, out_then in kept:
        assert torch.equal(inside, inside_then) and torch.equal(out, out_then)


def test_adapters_on_the_projections(model, used):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["to_q", "to_k", "to_out.0", "net.0.proj"], init_lora_weights=False)
    model.add_adapter(config)
    want = own(model)
    kept = []
    model.blocks[0].attn1.to_q.base_layer.register_forward_hook(lambda m, args, out: kept.append((out, out.clone())))
    for disabled in (False, True):
        if disabled:
            model.disable_adapters()
            enable_vsa(model, topk=2, fused=False)
            want = run(model)
            enable_vsa(model, topk=2)
        got, counts = used(lambda: run(model))
        assert counts == FUSED and same_output(got, want)
    assert len(kept) == 3 and all(torch.equal(now, then) for now, then in kept)


def test_copies_have_a_forward_of_their_own(model, used):
    enable_vsa(model, **SETTINGS["gates"])
    want, other = run(model), copy.deepcopy(model)
    replica = {module: module._replicate_for_data_parallel() for module in model.modules()}
    for module, copied in replica.items():
        for name, child in module._modules.items():
            copied._modules[name] = replica.get(child)
        for name, parameter in module._parameters.items():
            setattr(copied, name, None if parameter is None else torch.nn.Parameter(parameter.detach().clone()))
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                parameter.data.zero_()
    for copied in (other, replica[model]):
        got, counts = used(lambda: run(copied))
        assert counts == FUSED and same_output(got, want)
        assert all(block.forward.args[0] is block for block in copied.blocks)
    disable_vsa(other, drop_gates=True)
    assert not any("forward" in block.__dict__ for block in other.blocks)
    assert all("forward" in block.__dict__ for block in model.blocks)


def test_disable_leaves_nothing(model, used):
    dense = run(model)
    enable_vsa(model, topk=1)
    run(model)
    disable_vsa(model)
    got, counts = used(lambda: run(model))
    assert torch.equal(got, dense) and counts == NONE
    assert not any("forward" in block.__dict__ for block in model.blocks)


# --- hooks of others around the blocks ------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.0, 10.0])
def test_first_block_cache(model, threshold):
    from diffusers.hooks import FirstBlockCacheConfig

    def latents(fused):
        fresh = transformer()
        enable_vsa(fresh, topk=2, fused=fused)
        fresh.enable_cache(FirstBlockCacheConfig(threshold=threshold))
        return generate(pipeline(fresh), steps=3)

    enable_vsa(model, topk=2)
    without = generate(pipeline(model), steps=3)
    assert (latents(True) - latents(False)).norm() <= 1e-4 * without.norm()
    assert same_output(latents(True), without) == (threshold == 0.0), "whether the cache was used"


def test_a_cache_around_the_transformers_blocks(model, used):
    """As TeaCache: it keeps what went into the first block, and adds the difference to later inputs."""
    enable_vsa(model, topk=2)
    first, last, kept = model.blocks[0], model.blocks[-1], {}
    first.register_forward_pre_hook(lambda module, args: kept.update(x=args[0]))
    last.register_forward_hook(lambda module, args, out: kept.update(difference=out - kept["x"]))
    _, counts = used(lambda: run(model))
    got = kept["difference"]
    enable_vsa(model, topk=2, fused=False)
    run(model)
    assert counts == FUSED and (got - kept["difference"]).norm() <= 1e-5 * got.norm()


def test_offloading_of_whole_blocks_after_enable_vsa(model, used):
    want = own(model)
    model.enable_group_offload(torch.device("cpu"), torch.device("cpu"), "block_level", num_blocks_per_group=1)
    got, counts = used(lambda: run(model))
    assert counts == FUSED and same_output(got, want)
    enable_vsa(model, topk=2)  # finds its forward inside the hook's
    assert used(lambda: run(model))[1] == FUSED
    enable_vsa(model, topk=2, fused=False)
    assert used(lambda: run(model))[1] == NONE
    disable_vsa(model, drop_gates=True)
    assert used(lambda: run(model))[1] == NONE


def test_hooks_of_accelerate_around_blocks(model, used):
    hooks = pytest.importorskip("accelerate.hooks")
    want = own(model)
    for block in model.blocks:
        hooks.add_hook_to_module(block, hooks.ModelHook())
    got, counts = used(lambda: run(model))
    assert counts == FUSED and same_output(got, want)
