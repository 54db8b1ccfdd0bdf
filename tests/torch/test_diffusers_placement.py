"""A new gate computes in the model's dtype, on its device, under its offloading; else enable_vsa refuses by name."""

import pytest
import torch

pytest.importorskip("diffusers")

from test_diffusers_gate_modules import gates_of, group_offloaded  # noqa: E402
from tiny_wan import LAYERS, gate_weights, generate, inputs, pipeline, run, same_output, transformer  # noqa: E402
from vsa_torch.diffusers import disable_vsa, enable_vsa  # noqa: E402


@pytest.fixture
def want(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    out = run(model)
    disable_vsa(model, drop_gates=True)
    return out


# --- accelerate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("to_disk", [False, True])
@pytest.mark.parametrize("before", [True, False])
def test_p05_accelerate_offload_layer_by_layer(model, want, before, to_disk, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    if not before:
        enable_vsa(model, topk=2, gates=gate_weights())
    if to_disk:
        accelerate.disk_offload(model, tmp_path, execution_device=torch.device("cpu"))
    else:
        accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    enable_vsa(model, topk=2, **(dict(gates=gate_weights()) if before else {}))
    assert same_output(run(model), want)
    assert all(parameter.device.type == "meta" for gate in gates_of(model) for parameter in gate.parameters())
    enable_vsa(model, topk=1)
    enable_vsa(model, topk=2)
    assert same_output(run(model), want)
    with pytest.raises(ValueError, match="gates: expected .* written, got one whose weights are packed or elsewhere"):
        enable_vsa(model, topk=2, gates=gate_weights())
    accelerate.hooks.remove_hook_from_submodules(model)
    if not to_disk:
        assert same_output(run(model), want)


def test_p05_accelerate_offload_of_whole_blocks_is_refused(model, want):
    accelerate = pytest.importorskip("accelerate")
    accelerate.cpu_offload(model, execution_device=torch.device("cpu"), preload_module_classes=["WanAttention"])
    with pytest.raises(ValueError, match="model: expected offloading layer by layer.*call enable_vsa before"):
        enable_vsa(model, topk=2, gates=gate_weights())
    enable_vsa(model, topk=4)
    run(model)


def test_p05_dispatched_models(model, want):
    accelerate = pytest.importorskip("accelerate")
    accelerate.dispatch_model(model, {"": "cpu"}, force_hooks=True)
    enable_vsa(model, topk=2, gates=gate_weights())
    assert same_output(run(model), want)


@pytest.mark.parametrize("disk", [False, True])
def test_p05_a_device_map_with_offloaded_blocks(model, want, tmp_path, disk):
    accelerate = pytest.importorskip("accelerate")
    away = "disk" if disk else "cpu"
    places = {name: "cpu" for name, _ in model.named_children() if name != "blocks"}
    places |= {"scale_shift_table": "cpu", "blocks.0": "cpu", "blocks.1": away, "blocks.2": away}
    accelerate.dispatch_model(model, places, main_device="cpu", offload_dir=tmp_path, force_hooks=True)
    enable_vsa(model, topk=2, gates=gate_weights())
    assert same_output(run(model), want)


@pytest.mark.parametrize("sequential", [False, True])
def test_p05_offloading_of_a_pipeline(model, sequential):
    pytest.importorskip("accelerate")
    pipe = pipeline(model)
    enable_vsa(pipe, topk=2, gates=gate_weights())
    want = generate(pipe)
    disable_vsa(pipe, drop_gates=True)
    if sequential:
        from accelerate import cpu_offload

        cpu_offload(pipe.transformer, torch.device("cpu"))  # what enable_sequential_cpu_offload does on a GPU
    else:
        from accelerate import cpu_offload_with_hook

        cpu_offload_with_hook(pipe.transformer, torch.device("cpu"))  # and enable_model_cpu_offload
    enable_vsa(pipe, topk=2, gates=gate_weights())
    assert same_output(generate(pipe), want)


def test_p05_a_model_without_weights_is_refused():
    with torch.device("meta"):
        model = transformer()
    with pytest.raises(ValueError, match="model: expected one that has its weights, .* got weights on meta"):
        enable_vsa(model, topk=2, gates=gate_weights())


def test_p05_gates_without_values_are_refused(model, want):
    gates = gate_weights()
    gates["blocks.1.to_gate_compress.bias"] = gates["blocks.1.to_gate_compress.bias"].to("meta")
    for _ in range(2):
        with pytest.raises(ValueError, match="gates: expected tensors with values, got one on meta: blocks.1.*bias"):
            enable_vsa(model, topk=2, gates=gates)
        enable_vsa(model, topk=2, gates=gate_weights())  # then those attached are not written into, either
        assert torch.equal(run(model), want)


# --- group offloading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["leaf_level", "block_level"])
def test_p05_group_offloading_in_memory(model, want, kind):
    group_offloaded(model, kind=kind)
    enable_vsa(model, topk=2, gates=gate_weights())
    assert same_output(run(model), want)
    hooked = [hasattr(gate, "_diffusers_hook") for gate in gates_of(model)]
    assert all(hooked) if kind == "leaf_level" else not any(hooked)  # a block moves what is in it
    other = {name: 2 * tensor for name, tensor in gate_weights().items()}
    enable_vsa(model, topk=2, gates=other)
    assert not same_output(run(model), want)


@pytest.mark.parametrize("kind", ["leaf_level", "block_level"])
def test_p05_group_offloading_to_disk_is_refused_before_gates(model, tmp_path, kind):
    group_offloaded(model, tmp_path, kind)
    with pytest.raises(ValueError, match="model: expected one without group offloading to disk or by a stream.*"
                                         "call enable_vsa before enable_group_offload"):
        enable_vsa(model, topk=2, gates=gate_weights())
    assert enable_vsa(model, topk=2).num_gates == 0
    run(model)


# --- storage and quantisation -------------------------------------------------------------------------


def packed(model):
    """Projections whose weights are bytes, as bitsandbytes and GGUF have them, and which compute in float."""
    class Packed(torch.nn.Linear):
        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight.view(self.kept.dtype).to(x.dtype), self.bias)

    for block in model.blocks:
        for attention in (block.attn1, block.attn2):
            for name in ("to_q", "to_k", "to_v"):
                layer = getattr(attention, name)
                layer.__class__, layer.kept = Packed, layer.weight.detach()[:0]
                layer.weight = torch.nn.Parameter(layer.weight.detach().view(torch.uint8), requires_grad=False)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_p06_packed_projections(model, dtype, close):
    model.to(dtype)
    enable_vsa(model, topk=2, gates=gate_weights())
    want = run(model, dtype=dtype)
    disable_vsa(model, drop_gates=True)
    enable_vsa(packed(model), topk=2, gates=gate_weights())
    assert {gate.weight.dtype for gate in gates_of(model)} == {dtype}
    assert torch.equal(run(model, dtype=dtype), want)


@pytest.mark.parametrize("bits", [4, 8])
def test_p06_bitsandbytes(model, bits):
    """Its layers, put in as diffusers does; diffusers itself loads such models on a GPU only."""
    nn = pytest.importorskip("bitsandbytes").nn
    model.to(torch.bfloat16)
    for block in model.blocks:
        for name in ("to_q", "to_k", "to_v"):
            layer = getattr(block.attn1, name)
            new = nn.Linear4bit(32, 32, compute_dtype=torch.bfloat16, quant_type="nf4") if bits == 4 else \
                nn.Linear8bitLt(32, 32, has_fp16_weights=False)
            new.load_state_dict(layer.state_dict(), strict=False)
            setattr(block.attn1, name, new.to("cpu"))
    dense = run(model, dtype=torch.bfloat16)
    enable_vsa(model, topk=2, gates=gate_weights())
    assert {gate.weight.dtype for gate in gates_of(model)} == {torch.bfloat16}
    out = run(model, dtype=torch.bfloat16)
    assert out.isfinite().all() and not torch.equal(out, dense)
    if bits == 4:
        assert model.blocks[0].attn1.to_q.weight.dtype == torch.uint8
    enable_vsa(model, topk=2)
    assert torch.equal(run(model, dtype=torch.bfloat16), out)


def test_p06_torchao(model):
    quantize = pytest.importorskip("torchao.quantization")
    enable_vsa(model, topk=2, gates=gate_weights())
    gated = run(model)
    disable_vsa(model, drop_gates=True)
    for block in model.blocks:
        quantize.quantize_(block.attn1, quantize.Int8WeightOnlyConfig())
    enable_vsa(model, topk=2, gates=gate_weights())
    assert {gate.weight.dtype for gate in gates_of(model)} == {torch.float32}
    torch.testing.assert_close(run(model), gated, atol=0.1, rtol=0.1)
    for block in model.blocks:
        quantize.quantize_(block.attn1.to_gate_compress, quantize.Int8WeightOnlyConfig())
    want, gates = run(model), gates_of(model)
    enable_vsa(model, topk=2)
    assert torch.equal(run(model), want) and all(a is b for a, b in zip(gates_of(model), gates))
    with pytest.raises(ValueError, match="gates: expected .* written, got one whose weights are packed"):
        enable_vsa(model, topk=2, gates=gate_weights())


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("compute", [torch.float32, torch.bfloat16])
def test_p07_layerwise_casting(model, before, compute):
    model.to(compute)
    if not before:
        enable_vsa(model, topk=2, gates=gate_weights())
    model.enable_layerwise_casting(torch.float8_e4m3fn, compute)
    enable_vsa(model, topk=2, **(dict(gates=gate_weights()) if before else {}))
    out, gates = run(model, dtype=compute), gates_of(model)
    assert {gate.weight.dtype for gate in gates} == {compute if before else torch.float8_e4m3fn}
    enable_vsa(model, topk=2)
    assert torch.equal(run(model, dtype=compute), out) and all(a is b for a, b in zip(gates_of(model), gates))


def test_p07_a_model_that_computes_in_no_float_is_refused(model):
    model.to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match="model: expected one that computes in .*, got torch.float8_e4m3fn"):
        enable_vsa(model, topk=2, gates=gate_weights())


def test_p07_autocast(model, close):
    enable_vsa(model, topk=2, gates=gate_weights())
    want = run(model)
    with torch.autocast("cpu", torch.bfloat16):
        close(run(model).bfloat16(), want.double(), roundings=64)


# --- sharded and replicated -----------------------------------------------------------------------------


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_p02_distributed_data_parallel(model, process_group):
    wrapped = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    with pytest.raises(ValueError, match="model: expected one that is not yet wrapped by DistributedDataParallel"):
        enable_vsa(wrapped, topk=2, gates=gate_weights())
    enable_vsa(wrapped, topk=2)
    disable_vsa(wrapped)
    enable_vsa(model, topk=2, gates=gate_weights())
    gates, wrapped = gates_of(model), torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    enable_vsa(wrapped, topk=1)
    assert all(a is b for a, b in zip(gates_of(model), gates))
    wrapped(**inputs())[0].sum().backward()
    assert gates[0].weight.grad is not None


def test_p02_fsdp2(model, process_group):
    from torch.distributed.fsdp import fully_shard

    enable_vsa(model, topk=2, gates=gate_weights())
    want = run(model)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    gates = gates_of(model)
    enable_vsa(model, topk=2)
    torch.testing.assert_close(run(model), want)
    assert all(a is b for a, b in zip(gates_of(model), gates))
    with pytest.raises(ValueError, match="gates: expected .* written, got one with sharded weights"):
        enable_vsa(model, topk=2, gates=gate_weights())
    disable_vsa(model, drop_gates=True)
    with pytest.raises(ValueError, match="model: expected one .*not yet wrapped by FSDPModule"):
        enable_vsa(model, topk=2, gates=gate_weights())


def test_p02_fsdp1(model, process_group):
    from torch.distributed.fsdp import FullyShardedDataParallel

    with pytest.raises(ValueError, match="model: expected one that is not yet wrapped by FullyShardedDataParallel"):
        enable_vsa(FullyShardedDataParallel(transformer(), device_id=torch.device("cpu"), use_orig_params=True),
                   topk=2, gates=gate_weights())
    enable_vsa(model, topk=2, gates=gate_weights())
    want = run(model)
    wrapped = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    enable_vsa(wrapped, topk=2)
    torch.testing.assert_close(run(wrapped), want)


def test_fused_projections_before_gates(model, want):
    model.fuse_qkv_projections()
    enable_vsa(model, topk=2, gates=gate_weights())
    torch.testing.assert_close(run(model), want)
    model.unfuse_qkv_projections()
    enable_vsa(model, topk=2)
    assert torch.equal(run(model), want)
