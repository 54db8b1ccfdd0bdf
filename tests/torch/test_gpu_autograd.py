"""Gradients on CUDA tensors against the restatement."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import restatement
import vsa_torch
from test_gpu import CASES, GRID, TOKENS, arguments, doubles, operator
from vsa_torch.attention import _BACKWARD

pytestmark = pytest.mark.gpu


@pytest.fixture
def leaves(make):
    """query, key, value, gate_coarse and gate_fine [2, 210, 4 or 2, 64] in bfloat16."""
    return [make(2, TOKENS, heads, 64, dtype=torch.bfloat16).cuda().requires_grad_() for heads in (4, 2, 2, 4, 4)]


def gradients(leaves, dout, **change):
    query, key, value, coarse, fine = leaves
    return torch.autograd.grad(operator(query, key, value, coarse, gate_fine=fine, **change), leaves, dout)


@pytest.mark.parametrize("dtype, head_dim", [(torch.bfloat16, 64), (torch.bfloat16, 128), (torch.float16, 64),
                                             (torch.float16, 128)])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_restatement(make, close, name, dtype, head_dim):
    case = CASES[name]
    seq_len = TOKENS + sum(case.get("prefix", ()))
    tensors = [make(2, seq_len, heads, head_dim, dtype=dtype) for heads in (4, 2, 2, 4, 4)]
    dout = make(2, seq_len, 4, head_dim, dtype=dtype)
    grads = gradients([t.cuda().requires_grad_() for t in tensors], dout.cuda(), **case)
    wide = [t.requires_grad_() for t in doubles(tensors)]
    want = restatement.attention(*wide[:4], gate_fine=wide[4], grid=GRID, **case)[0]
    for grad, expected in zip(grads, torch.autograd.grad(want, wide, dout.double())):
        close(grad.cpu(), expected, roundings=8)


def test_gradients_without_gates(make, close):
    tensors = [make(1, TOKENS, 2, 128, dtype=torch.bfloat16) for _ in range(3)]
    dout = make(1, TOKENS, 2, 128, dtype=torch.bfloat16)
    cuda = [t.cuda().requires_grad_() for t in tensors]
    wide = [t.requires_grad_() for t in doubles(tensors)]
    want = restatement.attention(*wide, grid=GRID, topk=3)[0]
    for grad, expected in zip(torch.autograd.grad(operator(*cuda), cuda, dout.cuda()),
                              torch.autograd.grad(want, wide, dout.double())):
        close(grad.cpu(), expected, roundings=8)


def test_T13_the_same_bits_every_time(leaves):
    dout = torch.randn_like(leaves[0])
    first = gradients(leaves, dout)
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(gradients(leaves, dout), first))


def test_checkpointing_gives_the_same_bits(leaves):
    query, key, value, coarse, fine = leaves

    def block(*tensors):
        return operator(*tensors[:4], gate_fine=tensors[4])

    dout = torch.randn_like(query)
    again = torch.autograd.grad(checkpoint(block, *leaves, use_reentrant=False), leaves, dout)
    assert all(torch.equal(a, b) for a, b in zip(again, gradients(leaves, dout)))


def test_compile_without_a_break(leaves, close):
    def block(query, key, value, coarse, fine):
        return operator(query, key, value, coarse, gate_fine=fine).sin().sum()

    compiled = torch.compile(block, fullgraph=True)(*leaves)
    for a, b in zip(torch.autograd.grad(compiled, leaves), torch.autograd.grad(block(*leaves), leaves)):
        close(a.cpu(), b.cpu().double(), roundings=8)


def test_T41_a_training_step_in_a_graph(leaves):
    dout = torch.randn_like(leaves[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        gradients(leaves, dout)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = gradients(leaves, dout)
    with torch.no_grad():
        for tensor in leaves:
            tensor.copy_(torch.randn_like(tensor))
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(captured, gradients(leaves, dout)))


class Layer(torch.nn.Module):
    """A residual layer of self-attention, 4 heads of 64: dense where there is no grid."""

    def __init__(self, grid):
        super().__init__()
        self.grid, self.qkvg, self.out = grid, torch.nn.Linear(256, 1024), torch.nn.Linear(256, 256)

    def forward(self, x):
        query, key, value, gate = self.qkvg(x).unflatten(2, (4, 4, 64)).unbind(2)
        if self.grid:
            attended = operator(query, key, value, gate, grid=self.grid, topk=None, sparsity=0.9)
        else:
            attended = torch.nn.functional.scaled_dot_product_attention(
                *(t.transpose(1, 2) for t in (query, key, value))).transpose(1, 2) * gate
        return x + self.out(attended.flatten(2))


def test_T42_the_peak_of_training_is_that_of_dense_attention_and_a_tiled_set():
    """Four layers with recomputation on 126,360 tokens, a tenth of the tiles kept."""
    grid = (81, 30, 52)

    def peak(layers):
        torch.manual_seed(0)
        model = torch.nn.ModuleList(Layer(grid if layers == "vsa" else None) for _ in range(4)).cuda().bfloat16()
        x = torch.randn(1, 81 * 30 * 52, 256, device="cuda", dtype=torch.bfloat16)
        for _ in range(2):  # the first call also takes what stays, such as workspaces of matrix products
            torch.cuda.reset_peak_memory_stats()
            y = x
            for layer in model:
                y = checkpoint(layer, y, use_reentrant=False)
            y.float().square().mean().backward()
            model.zero_grad()
            del y
        return torch.cuda.max_memory_allocated()

    tiled_set = 4 * vsa_torch.num_tiles(grid) * 64 * 256 * 2
    dense = peak("dense")
    torch.cuda.empty_cache()
    assert peak("vsa") <= dense + tiled_set


@pytest.mark.parametrize("name", _BACKWARD)
def test_opcheck_with_gradients(make, name):
    inputs = [make(2, TOKENS, 4, 64, dtype=torch.bfloat16).cuda() for _ in range(4)]
    args = [a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in arguments(inputs, name)]
    if name == "video_sparse_attention":
        args[-1] = True  # save_for_backward
    torch.library.opcheck(getattr(torch.ops.vsa, name).default, tuple(args))


@pytest.mark.parametrize("name", ["coarse_select", "block_sparse_attention"])
def test_gradients_of_the_stages(make, close, name):
    tensors = [make(1, TOKENS, heads, 64, dtype=torch.bfloat16) for heads in (4, 2, 2)]
    stages = {"coarse_select": lambda q, k, v, lut, count: vsa_torch.coarse_select(q, k, v, grid=GRID, topk=3)[0],
              "block_sparse_attention": lambda *args: vsa_torch.block_sparse_attention(*args, grid=GRID)}
    cuda = [t.cuda().requires_grad_() for t in tensors]
    wide = [t.requires_grad_() for t in doubles(tensors)]
    _, lut, count = vsa_torch.coarse_select(*(t.detach() for t in wide), grid=GRID, topk=3)
    want = stages[name](*wide, lut, count)
    dout = make(*want.shape)
    out = stages[name](*cuda, lut.cuda(), count.cuda())
    for grad, expected in zip(torch.autograd.grad(out, cuda, dout.cuda().to(out.dtype)),
                              torch.autograd.grad(want, wide, dout.double())):
        close(grad.cpu(), expected, roundings=8)
