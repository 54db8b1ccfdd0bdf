"""What PyTorch asks of an operator: schemas, fake kernels, autograd, torch.compile, refusals."""

import pytest
import torch

import vsa_torch
from vsa_torch import _library, attention

GRID, TILE = [5, 6, 7], [4, 4, 4]


def arguments(make, name, head_dim=16, dtype=torch.float32):
    q, k, v, gate = (make(2, 210, heads, head_dim, dtype=dtype, requires_grad=True) for heads in (4, 2, 2, 4))
    if name == "video_sparse_attention":
        return q, k, v, gate, None, 0.0, 0.5, GRID, TILE, 3, None, [], [], [], "none", True
    if name == "coarse_select":
        return q, k, v, GRID, TILE, 3, 0.25, [], "none"
    if name == "block_sparse_attention":
        _, lut, count = vsa_torch.coarse_select(q, k, v, grid=GRID, topk=3)
        return q, k, v, lut, count, TILE, GRID, GRID, [], [], None
    if name == "untile":
        return make(2, 512, 2, head_dim, dtype=dtype, requires_grad=True), GRID, TILE, []
    return make(2, 210, 2, head_dim, dtype=dtype, requires_grad=True), GRID, TILE, []


@pytest.mark.parametrize("name", _library.FORWARD)
def test_opcheck(make, name):
    torch.library.opcheck(getattr(torch.ops.vsa, name).default, arguments(make, name))


def test_opcheck_with_prefix_without_gradient(make):
    q = make(1, 300, 2, 16)
    torch.library.opcheck(torch.ops.vsa.video_sparse_attention.default,
                          (q, q, q, None, None, 1.0, 0.5, GRID, TILE, 3, None, [90], [], [], "none", False))


def test_compile_without_a_break(make):
    inputs = [make(1, 210, 2, 16, requires_grad=True) for _ in range(4)]

    def block(query, key, value, gate):
        out = vsa_torch.video_sparse_attention(query * 2, key, value, gate, grid=(5, 6, 7), sparsity=0.6)
        return out.sin().sum()

    eager = block(*inputs)
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")(*inputs)
    torch.testing.assert_close(compiled, eager)
    for a, b in zip(torch.autograd.grad(compiled, inputs), torch.autograd.grad(eager, inputs)):
        torch.testing.assert_close(a, b)


def test_compile_to_machine_code_with_gradients_and_another_batch(make):
    """The default backend, which other tests leave out for its time."""
    def operator(*inputs):
        return vsa_torch.video_sparse_attention(*inputs, grid=(5, 6, 7), topk=3)

    compiled = torch.compile(operator, fullgraph=True, dynamic=True)
    for batch in (1, 2):
        inputs = [make(batch, 210, 2, 16, requires_grad=True) for _ in range(4)]
        got, want = compiled(*inputs), operator(*inputs)
        assert torch.equal(got, want)
        dout = make(*got.shape)
        for a, b in zip(torch.autograd.grad(got, inputs, dout), torch.autograd.grad(want, inputs, dout)):
            assert torch.equal(a, b)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing_gives_the_same_bits(make, use_reentrant):
    from torch.utils.checkpoint import checkpoint

    inputs = [make(1, 210, 2, 16, requires_grad=True) for _ in range(4)]
    calls = []

    def block(*tensors):
        calls.append(torch.is_grad_enabled())
        return vsa_torch.video_sparse_attention(*tensors, grid=(5, 6, 7), topk=3)

    dout = make(1, 210, 2, 16)
    want = torch.autograd.grad(block(*inputs), inputs, dout)
    checkpoint(block, *inputs, use_reentrant=use_reentrant).backward(dout)
    assert len(calls) == 3  # once above, then forward, then again in backward
    for tensor, expected in zip(inputs, want):
        assert torch.equal(tensor.grad, expected)


def test_export_keeps_the_operator(make):
    class Block(torch.nn.Module):
        def forward(self, x):
            return vsa_torch.video_sparse_attention(x, x, x, grid=(5, 6, 7), topk=3)

    x = make(1, 210, 2, 16)
    exported = torch.export.export(Block(), (x,))
    assert torch.ops.vsa.video_sparse_attention.default in [node.target for node in exported.graph.nodes]
    assert torch.equal(exported.module()(x), Block()(x))


def test_compile_of_the_stages_without_a_break(make):
    q = make(1, 210, 2, 16)

    def block(q):
        _, lut, count = vsa_torch.coarse_select(q, q, q, grid=(5, 6, 7), topk=2)
        tiled = vsa_torch.tile(q, grid=(5, 6, 7))
        out = vsa_torch.block_sparse_attention(tiled, tiled, tiled, lut, count,
                                               q_tile_len=vsa_torch.tile_lengths((5, 6, 7)))
        return vsa_torch.untile(out, grid=(5, 6, 7))

    assert torch.equal(torch.compile(block, fullgraph=True, backend="aot_eager")(q), block(q))


@pytest.mark.gpu
@pytest.mark.parametrize("name", _library.FORWARD)
def test_every_operator_and_its_gradient_on_cuda_give_what_they_give_on_the_cpu(make, close, name):
    on_cpu = arguments(make, name, head_dim=64, dtype=torch.bfloat16)
    on_cuda = [value.detach().cuda().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
               for value in on_cpu]
    got, want = ([result] if isinstance(result, torch.Tensor) else result
                 for result in (getattr(torch.ops.vsa, name)(*values) for values in (on_cuda, on_cpu)))
    assert all(a.is_cuda and a.dtype == b.dtype for a, b in zip(got, want))
    close(got[0].cpu(), want[0], roundings=8)
    dout = make(*want[0].shape, dtype=want[0].dtype)
    leaves = [[value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]
              for values in (on_cuda, on_cpu)]
    for a, b in zip(torch.autograd.grad(got[0], leaves[0], dout.cuda()), torch.autograd.grad(want[0], leaves[1], dout)):
        assert a.is_cuda
        close(a.cpu(), b, roundings=8)


def test_what_a_build_implements():
    for call in ("tile", "fine", "attention_forward", "attention_backward", "pool_backward", "coarse_backward",
                 "fine_backward", "norm_rope_pool", "residual_norm"):
        assert torch.ops.vsa.implements("cpu", call)
    assert not torch.ops.vsa.implements("cpu", "Fine")
    with pytest.raises(ValueError, match="reference, cpu, cuda or hip, got tpu"):
        torch.ops.vsa.implements("tpu", "fine")


def test_a_gradient_that_cuda_lacks_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr(attention, "_NO_GRADIENT_ON_CUDA", {"video_sparse_attention"})
    with torch._subclasses.FakeTensorMode():  # fake tensors need no GPU
        q = torch.empty(1, 210, 2, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        with pytest.raises(NotImplementedError, match=r"requires_grad: expected False on cuda"):
            vsa_torch.video_sparse_attention(q, q, q, grid=(5, 6, 7), topk=3)
        with torch.no_grad():
            out = vsa_torch.video_sparse_attention(q, q, q, grid=(5, 6, 7), topk=3)
        assert out.shape == q.shape and out.is_cuda
