"""The operators on CUDA tensors against the restatement: needs a Hopper GPU and a build with CUDA."""

import math

import pytest
import torch

import restatement
import vsa_torch
from vsa_torch import _library

pytestmark = pytest.mark.gpu

GRID = (5, 6, 7)  # partial tiles on all axes: 2 x 2 x 2 tiles, 210 tokens
TOKENS = math.prod(GRID)
CASES = {
    "plain": dict(topk=3),
    "all_tiles": dict(topk=8),
    "scale": dict(topk=2, scale=0.3125),
    "tiles_of_128": dict(topk=3, tile_shape=(4, 4, 8)),
    "tiles_of_256": dict(topk=1, tile_shape=(4, 8, 8)),
    "odd_tiles": dict(topk=7, tile_shape=(3, 3, 3)),
    "prefix": dict(topk=2, prefix=(77, 0, 13)),
}


@pytest.fixture
def inputs(make):
    """query, key, value and gate [2, 210, 4, 64] in bfloat16."""
    return [make(2, TOKENS, 4, 64, dtype=torch.bfloat16).cuda() for _ in range(4)]


def doubles(tensors):
    return [t.cpu().double() for t in tensors]


def operator(*tensors, **change):
    return vsa_torch.video_sparse_attention(*tensors, **dict(grid=GRID, topk=3) | change)


@pytest.mark.parametrize("dtype, head_dim", [(torch.bfloat16, 64), (torch.bfloat16, 128), (torch.float16, 64),
                                             (torch.float16, 128)])
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_forward_is_the_restatement(make, close, name, dtype, head_dim):
    """A batch of 2, four query heads on two of keys, with and without gates, padding of tiles on all axes."""
    case = CASES[name]
    seq_len = TOKENS + sum(case.get("prefix", ()))
    tensors = [make(2, seq_len, heads, head_dim, dtype=dtype) for heads in (4, 2, 2, 4, 4)]
    query, key, value, coarse, fine = (t.cuda() for t in tensors)
    wide = doubles(tensors)
    want, want_lse, _ = restatement.attention(*wide[:4], grid=GRID, **case)
    out, lse = operator(query, key, value, coarse, return_lse=True, **case)
    assert out.dtype == dtype and out.is_cuda and lse.dtype == torch.float32
    close(out.cpu(), want)
    close(lse.cpu(), want_lse)
    without, _, _ = restatement.attention(*wide[:3], grid=GRID, **case)
    close(operator(query, key, value, **case).cpu(), without)
    both, _, _ = restatement.attention(*wide[:4], gate_fine=wide[4], grid=GRID, **case)
    close(operator(query, key, value, coarse, gate_fine=fine, **case).cpu(), both)


@torch.no_grad()
def test_a_sequence_of_many_tiles(make, close):
    """54 tiles, of which a row keeps 6: more than one wave of what a kernel has in flight."""
    tensors = [make(1, 12 * 12 * 22, 2, 128, dtype=torch.bfloat16) for _ in range(4)]
    out = operator(*(t.cuda() for t in tensors), grid=(12, 12, 22), topk=6)
    want, _, _ = restatement.attention(*doubles(tensors), grid=(12, 12, 22), topk=6)
    close(out.cpu(), want)


@torch.no_grad()
def test_gates_may_be_numbers(inputs, close):
    query, key, value, _ = inputs
    ones = torch.ones_like(query)
    close(operator(query, key, value, 1.0).cpu(), operator(query, key, value, ones).cpu().double())
    close(operator(query, key, value, gate_fine=0.5).cpu(), operator(query, key, value).cpu().double() / 2)


@torch.no_grad()
def test_T14_T16_own_list_in_tile_order_with_other_kv_and_an_empty_row(make, close):
    query = make(2, 192, 4, 64, dtype=torch.bfloat16)
    key, value = (make(2, 448, 2, 64, dtype=torch.bfloat16) for _ in range(2))
    lut = torch.full((2, 4, 3, 4), -1, dtype=torch.int32)
    lut[:, :, 0, :2] = torch.tensor([1, 6])
    lut[:, :, 2] = torch.tensor([0, 2, 3, 5])
    count = torch.tensor([2, 0, 4], dtype=torch.int32).expand(2, 4, 3)
    kv_len = [64, 64, 17, 64, 64, 1, 30]
    out, lse = vsa_torch.block_sparse_attention(*(t.cuda() for t in (query, key, value, lut, count)),
                                                q_tile_len=[64, 64, 40], kv_tile_len=kv_len, return_lse=True)
    mask = vsa_torch.lists.to_map(lut, count, 7).repeat_interleave(64, 2).repeat_interleave(64, 3)
    mask = mask & (torch.arange(64) < torch.tensor(kv_len)[:, None]).flatten()
    want, want_lse = restatement.masked_attention(*doubles((query, key, value)), mask, 0.125)
    rows = torch.cat([torch.arange(64), torch.arange(128, 168)])
    close(out.cpu()[:, rows], want[:, rows])
    close(lse.cpu()[:, :, rows], want_lse[:, :, rows])
    assert not out[:, 64:128].any() and (lse[:, :, 64:128] == -math.inf).all() and not out[:, 168:].any()


@torch.no_grad()
def test_the_stages_make_up_the_operator(inputs, close):
    query, key, value, gate = inputs
    coarse_out, lut, count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=3)
    by_list = vsa_torch.block_sparse_attention(query, key, value, lut, count, grid=GRID)
    close(by_list.cpu(), operator(query, key, value).cpu().double())
    tiles = restatement.tile_of_token(GRID, (4, 4, 4)).cuda()
    staged = by_list + gate * coarse_out.transpose(1, 2)[:, tiles].bfloat16()
    close(staged.cpu(), operator(*inputs).cpu().double(), roundings=8)
    tiled = vsa_torch.tile(query, grid=GRID)
    assert torch.equal(vsa_torch.untile(tiled, grid=GRID), query)


@torch.no_grad()
def test_T13_T19_T39_the_same_bits_in_views_and_batches_and_every_time(make):
    packed = make(2, TOKENS + 4, 3, 2, 64, dtype=torch.bfloat16).cuda()
    tensors = [packed[:, 4:, i] for i in range(3)]
    together = operator(*tensors)
    alone = [operator(*(t[b:b + 1].contiguous() for t in tensors)) for b in range(2)]
    assert torch.equal(together, torch.cat(alone))
    assert all(torch.equal(operator(*tensors), together) for _ in range(20))


# --- what PyTorch asks of an operator -------------------------------------------------------------


def arguments(inputs, name):
    query, key, value, gate = inputs
    key, value, tile_shape = key[:, :, :2], value[:, :, :2], [4, 4, 4]
    if name == "video_sparse_attention":
        return query, key, value, gate, None, 0.0, 1.0, GRID, tile_shape, 3, None, [], [], [], "none", False
    if name == "coarse_select":
        return query, key, value, GRID, tile_shape, 3, 0.25, [], "none"
    if name == "block_sparse_attention":
        _, lut, count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=3)
        return query, key, value, lut, count, tile_shape, GRID, GRID, [], [], None
    if name == "untile":
        return vsa_torch.tile(query, grid=GRID), GRID, tile_shape, []
    return query, GRID, tile_shape, []


@pytest.mark.parametrize("name", _library.FORWARD)
def test_opcheck(inputs, name):
    torch.library.opcheck(getattr(torch.ops.vsa, name).default, arguments(inputs, name))


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@torch.no_grad()
def test_compile_without_a_break(inputs, close, mode):
    """With the compiler's own kernels around it; the second mode replays CUDA graphs."""
    def block(query, key, value, gate):
        return operator(query * 2, key, value, gate.sigmoid()).sin()

    compiled = torch.compile(block, fullgraph=True, mode=mode)
    for _ in range(3):  # warm up, record, replay
        # The compiler may leave out the rounding of gate.sigmoid() to bfloat16.
        close(compiled(*inputs).cpu(), block(*inputs).cpu().double(), roundings=8)


@torch.no_grad()
def test_T41_capture_into_a_graph_follows_new_inputs(inputs):
    def stages():
        query, key, value, _ = inputs
        _, lut, count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=3)
        return operator(*inputs), vsa_torch.block_sparse_attention(query, key, value, lut, count, grid=GRID)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        stages()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = stages()
    for tensor in inputs:
        tensor.copy_(torch.randn_like(tensor))
    for _ in range(3):
        graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(captured, stages()))


@torch.no_grad()
def test_T50_work_is_ordered_on_the_current_stream(inputs):
    """On a side stream behind a long wait: inputs written there just before are those that are read."""
    want = operator(*inputs)
    stale = [torch.zeros_like(t) for t in inputs]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)  # about 50 ms
        for tensor, source in zip(stale, inputs):
            tensor.copy_(source)
        out = operator(*stale)
        assert not side.query()  # nothing waited
    side.synchronize()
    assert torch.equal(out, want)


@torch.no_grad()
def test_memory_that_a_call_frees_is_not_used_too_early(inputs):
    """Workspaces come from PyTorch's allocator and go back before the kernels have run."""
    want = operator(*inputs)
    results = []
    for _ in range(50):
        results.append(operator(*inputs))
        torch.empty(1 << 20, device="cuda", dtype=torch.uint8).fill_(255)
    assert all(torch.equal(out, want) for out in results)


@torch.no_grad()
def test_autocast_casts_as_for_dense_attention(make):
    query, key, value = (make(1, TOKENS, 2, 64).cuda() for _ in range(3))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        mixed = operator(query, key.bfloat16(), value)
    assert mixed.dtype == torch.bfloat16
    assert torch.equal(mixed, operator(query.bfloat16(), key.bfloat16(), value.bfloat16()))


# --- refusals -------------------------------------------------------------------------------------


def test_mixed_devices_are_named(inputs):
    query, key, value, gate = inputs
    with pytest.raises(ValueError, match="key: expected .* on cuda:0, got .* on cpu"):
        operator(query, key.cpu(), value)
    with pytest.raises(ValueError, match="gate_coarse: expected .* on cuda:0, got .* on cpu"):
        operator(query, key, value, gate.cpu())
    with pytest.raises(ValueError, match="device of the first tensor"):
        torch.ops.vsa.video_sparse_attention(query.cpu(), key, value, None, None, 0.0, 1.0, GRID, (4, 4, 4), 3, None,
                                             [], [], [], "none", False)


def test_lists_on_another_device_are_named(inputs):
    query, key, value, _ = inputs
    _, lut, count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=3)
    for tables in ((lut.cpu(), count), (lut, count.cpu())):
        with pytest.raises(ValueError, match="lut.*: expected int32 .* on cuda:0, got .* on cpu"):
            vsa_torch.block_sparse_attention(query, key, value, *tables, grid=GRID)
    with pytest.raises(ValueError, match="lut: expected the device of the first tensor"):
        torch.ops.vsa.block_sparse_attention(query, key, value, lut.cpu(), count, (4, 4, 4), GRID, GRID, [], [], None)


@pytest.mark.parametrize("change", [dict(dtype=torch.float32), dict(dtype=torch.float64), dict(head_dim=32),
                                    dict(head_dim=96)])
def test_what_the_kernels_lack_is_not_implemented(make, change):
    x = make(1, TOKENS, 1, change.get("head_dim", 64), dtype=change.get("dtype", torch.bfloat16)).cuda()
    with pytest.raises(NotImplementedError):
        operator(x, x, x)


def test_after_a_refusal_the_next_call_works(inputs):
    query, key, value, _ = inputs
    with pytest.raises(NotImplementedError):
        operator(query.float(), key.float(), value.float())
    torch.cuda.synchronize()
    assert operator(query, key, value).isfinite().all()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device")
def test_T50_the_device_of_the_tensors_decides(inputs):
    want = operator(*inputs)
    with torch.cuda.device(0):
        out = operator(*(t.to("cuda:1") for t in inputs))
    assert out.device.index == 1 and torch.equal(out.to("cuda:0"), want)
    with pytest.raises(ValueError, match="key: expected .* on cuda:0, got .* on cuda:1"):
        operator(inputs[0], inputs[1].to("cuda:1"), inputs[2])


@pytest.mark.parametrize("options", [{}, {"gate_fine": 0.0}, {"gate_coarse": 0.5, "scale": 0.1}, {"prefix": [3, 70]}], ids=str)
def test_p17_the_output_alone_has_the_same_bits(make, options):
    """Without a gradient lse and the list are not made, or are in the workspace."""
    tokens = TOKENS + sum(options.get("prefix", []))
    tensors = [make(2, tokens, 4, 64, dtype=torch.bfloat16).cuda() for _ in range(3 if "gate_coarse" in options else 4)]
    want, _ = operator(*tensors, return_lse=True, **options)
    for _ in range(2):
        assert torch.equal(operator(*tensors, **options), want)
