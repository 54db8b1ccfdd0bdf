"""The operators on CUDA tensors against the restatement: needs a Hopper GPU and a build with CUDA."""

import pytest
import torch

import restatement
import vsa_torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

GRID = (5, 6, 7)


@pytest.fixture
def inputs(make):
    return [make(2, 210, 4, 64, dtype=torch.bfloat16).cuda() for _ in range(4)]


def restated(inputs, **options):
    return restatement.attention(*(t.cpu().double() for t in inputs), grid=GRID, topk=3, **options)


@torch.no_grad()
def test_forward_is_the_restatement(inputs, close):
    out, lse = vsa_torch.video_sparse_attention(*inputs, grid=GRID, topk=3, return_lse=True)
    want, want_lse, _ = restated(inputs)
    close(out.cpu(), want)
    close(lse.cpu(), want_lse)


@torch.no_grad()
def test_the_stages_make_up_the_operator(inputs, close):
    query, key, value, _ = inputs
    _, lut, count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=3)
    by_list = vsa_torch.block_sparse_attention(query, key, value, lut, count, grid=GRID)
    whole = vsa_torch.video_sparse_attention(query, key, value, grid=GRID, topk=3)
    close(by_list.cpu(), whole.cpu().double())
    tiled = vsa_torch.tile(query, grid=GRID)
    assert torch.equal(vsa_torch.untile(tiled, grid=GRID), query)


@torch.no_grad()
def test_T41_capture_into_a_graph_follows_new_inputs(inputs):
    def operator():
        return vsa_torch.video_sparse_attention(*inputs, grid=GRID, topk=3)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # T50: a stream of its own, which also warms up
        operator()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = operator()
    for tensor in inputs:
        tensor.copy_(torch.randn_like(tensor))
    graph.replay()
    assert torch.equal(captured, operator())


@torch.no_grad()
def test_compile(inputs):
    def operator(*tensors):
        return vsa_torch.video_sparse_attention(*tensors, grid=GRID, topk=3)

    assert torch.equal(torch.compile(operator, fullgraph=True)(*inputs), operator(*inputs))


def test_refusals(inputs):
    query, key, value, _ = inputs
    with pytest.raises(ValueError, match="key: expected .* on cuda:0, got .* on cpu"):
        vsa_torch.video_sparse_attention(query, key.cpu(), value, grid=GRID, topk=3)
    with pytest.raises(ValueError, match="device of the first tensor"):
        torch.ops.vsa.video_sparse_attention(query.cpu(), key, value, None, None, 0.0, GRID, (4, 4, 4), 3, None,
                                             [], [], [], "none", False)
    with pytest.raises(NotImplementedError, match="requires_grad"):
        vsa_torch.video_sparse_attention(query.requires_grad_(), key, value, grid=GRID, topk=3)
    with pytest.raises(NotImplementedError):
        x = torch.ones(1, 210, 1, 64, device="cuda")
        vsa_torch.video_sparse_attention(x, x, x, grid=GRID, topk=3)
