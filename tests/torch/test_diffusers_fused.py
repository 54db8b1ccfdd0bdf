"""The fused passes of enable_vsa: they compute what diffusers' own operations do, and step aside wherever something else
could differ."""

import copy
import functools

import pytest
import torch

pytest.importorskip("diffusers")
from diffusers.models.normalization import FP32LayerNorm  # noqa: E402
from diffusers.models.transformers import transformer_wan  # noqa: E402

from tiny_wan import LAYERS, gate_weights, inputs, pipeline, generate, run, same_output, transformer  # noqa: E402
from vsa_torch.diffusers import _block, _passes, disable_vsa, enable_vsa  # noqa: E402

SETTINGS = {"sparse": dict(topk=2), "gates": dict(topk=2, gates=gate_weights()), "dense": dict(sparsity=0.0)}
FUSED = {"residual_norm": 4 * LAYERS, "norm_rope_pool": 2 * LAYERS}
NONE = {"residual_norm": 0, "norm_rope_pool": 0}


@pytest.fixture
def used(monkeypatch):
    """used(call): what the call returns, and how often each pass ran in it."""
    counts = dict(NONE)
    _passes._implemented.cache_clear()
    for name, attribute in (("residual_norm", "residual_norm"), ("norm_rope_pool", "_norm_rope_pool")):
        def counted(*args, _name=name, _real=getattr(_passes, attribute), **kwargs):
            if args[0].shape[1] > 1:  # not the question whether there is a pass
                counts[_name] += 1
            return _real(*args, **kwargs)
        monkeypatch.setattr(_passes, attribute, counted)

    def call(function):
        counts.update(NONE)
        out = function()
        return out, dict(counts)

    return call


def own(model, settings=SETTINGS["gates"], **change):
    """The output by diffusers' own operations; leaves the model with the passes switched on."""
    enable_vsa(model, **settings, fused=False)
    out = run(model, **change)
    enable_vsa(model, **{name: value for name, value in settings.items() if name != "gates"})
    return out


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


# --- when they step aside -------------------------------------------------------------------------


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
    enable_vsa(model, topk=2, fused=False)
    if late:
        enable_vsa(model, topk=2)
    change(model)
    enable_vsa(model, topk=2, fused=False)
    want = run(model)
    enable_vsa(model, topk=2)
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


def test_a_replaced_forward_of_the_class(model, used, monkeypatch):
    enable_vsa(model, topk=2)
    real = transformer_wan.WanTransformerBlock.forward
    monkeypatch.setattr(transformer_wan.WanTransformerBlock, "forward", lambda self, *args: 2 * real(self, *args))
    got, counts = used(lambda: run(model))
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


def compiled(model):
    torch._dynamo.reset()
    return run(torch.compile(model, fullgraph=True, backend="eager"))


def compiled_blocks(model):
    torch._dynamo.reset()
    for block in model.blocks:
        block.compile(fullgraph=True, backend="eager")
    return run(model)


def under_autocast(model):
    with torch.autocast("cpu", torch.bfloat16):
        return run(model)


def counting_flops(model):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False):
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


@pytest.mark.parametrize("way", [compiled, compiled_blocks, under_autocast, counting_flops, hooks_of_all_modules,
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


# --- on a GPU --------------------------------------------------------------------------------------


def gpu_model(dtype, head_dim):
    torch.manual_seed(7)
    model = transformer_wan.WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=head_dim, in_channels=4, out_channels=4, text_dim=24, freq_dim=16,
        ffn_dim=256, num_layers=2, rope_max_seq_len=32).eval().to("cuda", dtype)
    for module in model.modules():
        if isinstance(module, FP32LayerNorm):
            module.float()
    model.rope.float()
    return model


def gpu_call(dtype, batch=1):
    generator = torch.Generator().manual_seed(3)
    return dict(hidden_states=torch.randn(batch, 4, 5, 12, 14, generator=generator).to("cuda", dtype), return_dict=False,
                encoder_hidden_states=torch.randn(batch, 8, 24, generator=generator).to("cuda", dtype),
                timestep=torch.full((batch,), 500.0, device="cuda"))


@pytest.mark.gpu
@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_on_a_gpu_as_near_to_float32_as_diffusers(used, dtype, head_dim, batch):
    model, call = gpu_model(dtype, head_dim), gpu_call(dtype, batch)
    exact = copy.deepcopy(model).float()
    reference = exact(**{name: t.float() if isinstance(t, torch.Tensor) else t for name, t in call.items()})[0]
    dim = 2 * head_dim
    gates = {f"blocks.{n}.to_gate_compress.weight": torch.zeros(dim, dim) for n in range(2)}
    enable_vsa(model, sparsity=0.0, gates=gates, fused=False)
    theirs = (model(**call)[0].float() - reference).norm()
    enable_vsa(model, sparsity=0.0)
    got, counts = used(lambda: model(**call)[0])
    assert counts == {"residual_norm": 8, "norm_rope_pool": 4}
    assert 0 < (got.float() - reference).norm() <= 1.5 * theirs


@pytest.mark.gpu
@torch.no_grad()
def test_on_a_gpu_the_first_product_of_the_feed_forward_ends_with_gelu(monkeypatch):
    model = gpu_model(torch.bfloat16, 64)
    ffn, x = model.blocks[0].ffn, torch.randn(2, 300, 128, device="cuda", dtype=torch.bfloat16)
    calls, real = [], torch._addmm_activation
    monkeypatch.setattr(torch, "_addmm_activation", lambda *args, **kwargs: calls.append(0) or real(*args, **kwargs))
    got, want = _block._feed_forward(ffn, x), copy.deepcopy(ffn).float()(x.float())
    assert len(calls) == 1
    assert (got.float() - want).norm() <= 1.25 * (ffn(x).float() - want).norm()
    ffn.net[0].register_forward_hook(lambda module, args, out: 0 * out)
    assert torch.equal(_block._feed_forward(ffn, x), ffn(x)) and len(calls) == 1


@pytest.mark.gpu
@torch.no_grad()
def test_on_a_gpu_a_cuda_graph_repeats_the_passes(used):
    model, call = gpu_model(torch.bfloat16, 64), gpu_call(torch.bfloat16)
    enable_vsa(model, topk=2)
    want, counts = used(lambda: model(**call)[0])
    assert counts == {"residual_norm": 8, "norm_rope_pool": 4}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model(**call)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(**call)[0]
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, want)


@pytest.mark.gpu
@torch.no_grad()
@pytest.mark.parametrize("kind", ["leaf_level", "block_level"])
def test_on_a_gpu_under_group_offloading(used, kind):
    """The norms of leaf_level have hooks, which bring their weights: then diffusers' own operations run."""
    model, call = gpu_model(torch.bfloat16, 64), gpu_call(torch.bfloat16)
    enable_vsa(model, topk=4, fused=False)
    own_way = model(**call)[0]
    enable_vsa(model, topk=4)
    want = model(**call)[0]
    model.to("cpu")
    model.enable_group_offload(torch.device("cuda"), torch.device("cpu"), kind, num_blocks_per_group=1)
    got, counts = used(lambda: model(**call)[0])
    assert counts["residual_norm"] == (0 if kind == "leaf_level" else 8)
    assert torch.equal(got, own_way if kind == "leaf_level" else want)


@pytest.mark.gpu
@torch.no_grad()
def test_on_a_gpu_float32_steps_aside(used):
    """The cuda backend has no float32, and dense layers of diffusers do."""
    model, call = gpu_model(torch.float32, 64), gpu_call(torch.float32)
    want = model(**call)[0]
    enable_vsa(model, sparsity=0.0)
    got, counts = used(lambda: model(**call)[0])
    assert counts == NONE and torch.equal(got, want)
