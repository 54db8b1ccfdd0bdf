"""The implementation that install() puts into FastVideo on CUDA tensors, against FastVideo's own layer in float64."""

import pytest
import torch

from fastvideo_layers import NEWEST, call, fastvideo_wheel, loaded
from test_compat_fastvideo_backend import SPARSITY, inputs, theirs
from vsa_torch.compat import fastvideo as compat

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")


@pytest.fixture
def fastvideo():
    yield loaded(NEWEST)
    fastvideo_wheel.unload()


def layer(fastvideo, grid, head_dim):
    return (fastvideo_wheel.attention(fastvideo, 2, head_dim),
            fastvideo_wheel.metadata(fastvideo, grid, SPARSITY, CUDA))


@pytest.mark.parametrize("grid", [(8, 8, 4), (5, 6, 8), (3, 5, 9)])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_layer_gives_what_fastvideos_gives(fastvideo, make, close, grid, head_dim):
    tensors = inputs(make, grid, head_dim=head_dim, dtype=torch.bfloat16)
    dout = make(*tensors[0].shape, dtype=torch.bfloat16)
    want, want_grads = theirs(fastvideo, grid, tensors, dout)
    compat.install()
    attn, metadata = layer(fastvideo, grid, head_dim)
    cuda = [t.cuda().requires_grad_() for t in tensors]
    out = call(fastvideo, attn, metadata, *cuda)
    close(out.cpu(), want)
    for grad, expected in zip(torch.autograd.grad(out, cuda, dout.cuda()), want_grads):
        close(grad.cpu(), expected, roundings=16)


@torch.no_grad()
def test_the_host_does_not_wait_and_a_graph_captures_it(fastvideo, make):
    compat.install()
    attn, metadata = layer(fastvideo, (5, 6, 7), 64)
    tensors = [t.cuda() for t in inputs(make, (5, 6, 7), head_dim=64, dtype=torch.bfloat16)]
    want = call(fastvideo, attn, metadata, *tensors)
    torch.cuda.set_sync_debug_mode("error")
    try:
        call(fastvideo, attn, metadata, *tensors)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(fastvideo, attn, metadata, *tensors)
    out.zero_()
    graph.replay()
    assert torch.equal(out, want)


@torch.no_grad()
def test_compiled_by_inductor(fastvideo, make):
    compat.install()
    attn, metadata = layer(fastvideo, (5, 6, 7), 64)
    tensors = [t.cuda() for t in inputs(make, (5, 6, 7), head_dim=64, dtype=torch.bfloat16)]
    compiled = torch.compile(attn, fullgraph=True)
    assert torch.equal(call(fastvideo, compiled, metadata, *tensors), call(fastvideo, attn, metadata, *tensors))
