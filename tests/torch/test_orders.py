"""Tokens in the order of a curve: the same results as those of its tiles in tile order."""

import zlib

import pytest
import torch

import vsa_torch

GRID = (5, 6, 7)
ORDERS = ("gilbert", "gilbert-frames")


def test_the_curves_are_those_of_jenga():
    known = {("gilbert", (4, 4, 4)): 0x83B248C7, ("gilbert-frames", (2, 3, 5)): 0xCA074128,
             ("gilbert-frames", (21, 30, 52)): 0xE437D18E, ("gilbert", (21, 30, 52)): 0x07932BEC}
    for (order, grid), crc in known.items():
        tokens = vsa_torch.tokens_in_order(grid, order=order)
        assert zlib.crc32(tokens.to(torch.int32).numpy().tobytes()) == crc
    assert vsa_torch.tokens_in_order((1, 2, 3)).tolist() == [0, 1, 2, 3, 4, 5]


def test_tokens_of_cuboids_are_those_of_the_tiles():
    grid, shape = (2, 3, 4), (2, 2, 2)
    tokens = vsa_torch.tokens_in_order(grid, shape)
    assert tokens[:8].tolist() == [0, 1, 4, 5, 12, 13, 16, 17]
    assert sorted(tokens.tolist()) == list(range(24))
    assert sum(vsa_torch.tile_lengths(grid, shape)) == 24


@pytest.mark.parametrize("shape, tiles", [((4, 4, 4), 4), ((2, 8, 8), 2)])
def test_all_tiles_but_the_last_are_full(shape, tiles):
    for order in ORDERS:
        lengths = vsa_torch.tile_lengths(GRID, shape, order=order)
        full = shape[0] * shape[1] * shape[2]
        assert lengths == [full] * (tiles - 1) + [210 - (tiles - 1) * full]
        assert vsa_torch.num_tiles(GRID, shape, order=order) == tiles
        assert vsa_torch.num_tiles(GRID, shape, prefix=[70, 0, 3], order=order) == tiles + -(-70 // full) + 1
        assert vsa_torch.tile_lengths(GRID, shape, prefix=[3], order=order) == [3, *lengths]


def tensors(make, **options):
    return [make(1, 210, heads, 32, **options) for heads in (4, 2, 2, 4)]


@pytest.mark.parametrize("order", ORDERS)
def test_raster_order_padded_and_compact_tile_order_give_the_same_bits(make, order):
    query, key, value, gate = tensors(make)
    got = vsa_torch.video_sparse_attention(query, key, value, gate, grid=GRID, topk=2, order=order)
    lengths = vsa_torch.tile_lengths(GRID, order=order)

    tokens = vsa_torch.tokens_in_order(GRID, order=order)
    compact = [x[:, tokens] for x in (query, key, value, gate)]
    out = vsa_torch.video_sparse_attention(*compact, q_tile_len=lengths, topk=2, padded=False)
    assert torch.equal(out[:, tokens.argsort()], got)

    tiled = [vsa_torch.tile(x, grid=GRID, order=order) for x in (query, key, value, gate)]
    assert tiled[0].shape[1] == 4 * 64
    out = vsa_torch.video_sparse_attention(*tiled, q_tile_len=lengths, topk=2)
    assert torch.equal(vsa_torch.untile(out, grid=GRID, order=order), got)

    long, lse = vsa_torch.video_sparse_attention(query, key, value, gate, grid=GRID, topk=2, order=order,
                                                 return_lse=True)
    assert torch.equal(long, got) and lse.shape == (1, 4, 210)
    assert not torch.equal(got, vsa_torch.video_sparse_attention(query, key, value, gate, grid=GRID, topk=2))


@pytest.mark.parametrize("order", ORDERS)
def test_gradients_are_those_of_tile_order(make, order):
    lengths, tokens = vsa_torch.tile_lengths(GRID, order=order), vsa_torch.tokens_in_order(GRID, order=order)
    inputs, weights, grads = tensors(make), make(1, 210, 4, 32), []
    for in_tile_order in (False, True):
        leaves = [x.clone().requires_grad_() for x in inputs]
        if in_tile_order:
            out = vsa_torch.video_sparse_attention(*[x[:, tokens] for x in leaves], q_tile_len=lengths, topk=2,
                                                   padded=False)[:, tokens.argsort()]
        else:
            out = vsa_torch.video_sparse_attention(*leaves, grid=GRID, topk=2, order=order)
        (out * weights).sum().backward()
        grads.append([x.grad for x in leaves])
    for a, b in zip(*grads):
        assert torch.equal(a, b)


def test_gradients_match_differences():
    torch.manual_seed(1)
    leaves = [torch.randn(1, 130, 1, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    lut, count = torch.tensor([[0, 2], [1, -1], [0, 1]], dtype=torch.int32), torch.tensor([2, 1, 2], dtype=torch.int32)

    def loss(*tensors):
        out = vsa_torch.block_sparse_attention(*tensors, lut[None, None], count[None, None], grid=(2, 5, 13),
                                               order="gilbert")
        return out[:, ::13].sum()

    assert torch.autograd.gradcheck(loss, leaves, fast_mode=True)


@pytest.mark.parametrize("order", ORDERS)
def test_the_stages_in_order_are_the_operator(make, order):
    query, key, value, _ = tensors(make)
    coarse, lut, count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=2, order=order, prefix=[])
    fine = vsa_torch.block_sparse_attention(query, key, value, lut, count, grid=GRID, order=order)
    assert coarse.shape == (1, 4, 4, 32)
    assert torch.equal(fine, vsa_torch.video_sparse_attention(query, key, value, grid=GRID, topk=2, order=order))


def test_torch_compile_takes_an_order(make):
    query, key, value, gate = tensors(make)

    def call(order):
        return vsa_torch.video_sparse_attention(query, key, value, gate, grid=GRID, topk=2, order=order)

    compiled = torch.compile(call, fullgraph=True)
    for order in ("raster", *ORDERS):
        assert torch.equal(compiled(order), call(order))


def test_the_operators_hold_with_an_order(make):
    x, tiling = make(1, 210, 2, 16), (4, 4, 4, 1)
    torch.library.opcheck(torch.ops.vsa.tile.default, (x.requires_grad_(), GRID, tiling, None))
    arguments = (x, x, x, None, None, 0.0, 1.0, None, (4, 4, 4, 3), 2, None, None, [64, 64, 64, 18],
                 [64, 64, 64, 18], "none", True)
    torch.library.opcheck(torch.ops.vsa.video_sparse_attention.default, arguments)


def attend(make, **options):
    x = make(1, 210, 2, 16)
    return vsa_torch.video_sparse_attention(x, x, x, **{"grid": GRID, "topk": 1, **options})


@pytest.mark.parametrize("options, message", [
    ({"order": "hilbert"}, r"\[video_sparse_attention\] order: expected raster or gilbert or gilbert-frames, got hilb"),
    ({"order": 1}, r"\[video_sparse_attention\] order: expected"),
    ({"order": "gilbert", "tile_shape": (3, 5, 4)}, r"\[video_sparse_attention\] tile_shape: expected 64 or 128 tok"),
    ({"padded": False}, r"\[video_sparse_attention\] padded: expected True with grid"),
    ({"grid": None, "q_tile_len": [64, 64, 64, 18], "order": "gilbert"}, r"order: expected none with q_tile_len"),
    ({"grid": None, "q_tile_len": [64, 64, 64, 17], "padded": False}, r"query: expected a sequence of 209"),
    ({"order": "gilbert", "topk": 5}, r"topk: expected 1 to 4"),
])
def test_what_does_not_fit_is_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        attend(make, **options)


def test_other_mistakes_are_refused(make):
    with pytest.raises(TypeError, match=r"padded: expected True or False"):
        attend(make, padded=1)
    with pytest.raises(ValueError, match=r"\[tokens_in_order\] grid: expected"):
        vsa_torch.tokens_in_order((0, 4, 4), order="gilbert")
    x = make(1, 210, 2, 16)
    for tiling in ((4, 4, 4, 0), (4, 4, 4, 4), (4, 4, 4, 3), (4, 4, 4, 1, 1), (3, 4, 4, 1)):
        with pytest.raises(ValueError, match=r"tile_shape: expected"):
            torch.ops.vsa.tile(x, GRID, tiling, None)
    with pytest.raises(ValueError, match=r"tile_shape: expected the order of a sequence"):
        torch.ops.vsa.video_sparse_attention(x, x, x, None, None, 0.0, 1.0, None, (4, 4, 4, 1), 1, None, None,
                                             [64, 64, 64, 18], [64, 64, 64, 18], "none", False)
