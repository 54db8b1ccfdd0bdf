"""The fused passes of enable_vsa on a GPU."""

import copy

import pytest
import torch

pytest.importorskip("diffusers")
import diffusers  # noqa: E402
from diffusers.models.normalization import FP32LayerNorm  # noqa: E402

from fused_passes import NONE, used  # noqa: E402, F401  a fixture
from vsa_torch.diffusers import _block, enable_vsa  # noqa: E402

pytestmark = pytest.mark.gpu


def wan(dtype, head_dim):
    torch.manual_seed(7)
    model = diffusers.WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=head_dim, in_channels=4, out_channels=4, text_dim=24, freq_dim=16,
        ffn_dim=256, num_layers=2, rope_max_seq_len=32).eval().to("cuda", dtype)
    for module in model.modules():
        if isinstance(module, FP32LayerNorm):
            module.float()
    model.rope.float()
    return model


def call_of(dtype, batch=1):
    generator = torch.Generator().manual_seed(3)
    return dict(hidden_states=torch.randn(batch, 4, 5, 12, 14, generator=generator).to("cuda", dtype), return_dict=False,
                encoder_hidden_states=torch.randn(batch, 8, 24, generator=generator).to("cuda", dtype),
                timestep=torch.full((batch,), 500.0, device="cuda"))


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_on_a_gpu_as_near_to_float32_as_diffusers(used, dtype, head_dim, batch):
    model, call = wan(dtype, head_dim), call_of(dtype, batch)
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


@torch.no_grad()
def test_on_a_gpu_the_first_product_of_the_feed_forward_ends_with_gelu(monkeypatch):
    model = wan(torch.bfloat16, 64)
    ffn, x = model.blocks[0].ffn, torch.randn(2, 300, 128, device="cuda", dtype=torch.bfloat16)
    calls, real = [], torch._addmm_activation
    monkeypatch.setattr(torch, "_addmm_activation", lambda *args, **kwargs: calls.append(0) or real(*args, **kwargs))
    got, want = _block._feed_forward(ffn, x), copy.deepcopy(ffn).float()(x.float())
    assert len(calls) == 1
    assert (got.float() - want).norm() <= 1.25 * (ffn(x).float() - want).norm()
    ffn.net[0].register_forward_hook(lambda module, args, out: 0 * out)
    assert torch.equal(_block._feed_forward(ffn, x), ffn(x)) and len(calls) == 1


@torch.no_grad()
def test_on_a_gpu_a_cuda_graph_repeats_the_passes(used):
    model, call = wan(torch.bfloat16, 64), call_of(torch.bfloat16)
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


@torch.no_grad()
@pytest.mark.parametrize("kind", ["leaf_level", "block_level"])
def test_on_a_gpu_under_group_offloading(used, kind):
    """The norms of leaf_level have hooks, which bring their weights: then diffusers' own operations run."""
    model, call = wan(torch.bfloat16, 64), call_of(torch.bfloat16)
    enable_vsa(model, topk=4, fused=False)
    own_way = model(**call)[0]
    enable_vsa(model, topk=4)
    want = model(**call)[0]
    model.to("cpu")
    model.enable_group_offload(torch.device("cuda"), torch.device("cpu"), kind, num_blocks_per_group=1)
    got, counts = used(lambda: model(**call)[0])
    assert counts["residual_norm"] == (0 if kind == "leaf_level" else 8)
    assert torch.equal(got, own_way if kind == "leaf_level" else want)


@torch.no_grad()
def test_on_a_gpu_float32_steps_aside(used):
    """The cuda backend has no float32, and dense layers of diffusers do."""
    model, call = wan(torch.float32, 64), call_of(torch.float32)
    want = model(**call)[0]
    enable_vsa(model, sparsity=0.0)
    got, counts = used(lambda: model(**call)[0])
    assert counts == NONE and torch.equal(got, want)
