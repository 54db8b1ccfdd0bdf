"""The stages one by one, and that they make up the whole operator."""

import math

import pytest
import torch

import restatement
import vsa_torch

GRID = (5, 6, 7)
TOKENS = math.prod(GRID)


@pytest.mark.parametrize("prefix", [(), (77, 0, 13)])
def test_tile_brings_each_tile_together_and_untile_is_its_inverse(make, prefix):
    x = make(2, TOKENS + sum(prefix), 2, 8)
    tiled = vsa_torch.tile(x, grid=GRID, prefix=prefix)
    tiles = restatement.tile_of_token(GRID, (4, 4, 4), prefix)
    lengths = vsa_torch.tile_lengths(GRID, prefix=prefix)
    assert tiled.shape[1] == 64 * len(lengths) == 64 * vsa_torch.num_tiles(GRID, prefix=prefix)
    for i, length in enumerate(lengths):
        assert torch.equal(tiled[:, 64 * i:64 * i + length], x[:, tiles == i])
        assert not tiled[:, 64 * i + length:64 * (i + 1)].any()
    assert torch.equal(vsa_torch.untile(tiled, grid=GRID, prefix=prefix), x)


@pytest.mark.parametrize("stage", [vsa_torch.tile, vsa_torch.untile])
def test_gradients_of_tile_and_untile_are_each_other(make, stage):
    x = make(1, TOKENS, 1, 8)
    tiled = vsa_torch.tile(x, grid=GRID)
    source = (x if stage is vsa_torch.tile else tiled).requires_grad_()
    stage(source, grid=GRID).pow(2).sum().backward()
    assert torch.equal(source.grad, 2 * source)


def test_T02_tiles_of_a_standard_grid():
    lengths = vsa_torch.tile_lengths((21, 30, 52))
    assert (len(lengths), sum(lengths), set(lengths)) == (624, 32760, {64, 32, 16, 8})
    assert vsa_torch.num_tiles((21, 30, 52), (4, 8, 8)) == 168
    assert vsa_torch.num_tiles((21, 45, 80)) == 1440


def test_T03_T04_T05_topk_of_a_sparsity():
    rule = vsa_torch.topk_from_sparsity
    assert rule(0.75, vsa_torch.num_tiles((5, 32, 32))) == 32
    assert (rule(1.0, 9), rule(-0.01, 9)) == (1, 9)
    assert (rule(0.95, 20), rule(0.9, 10), rule(0.9, 624)) == (2, 1, 63)
    with pytest.raises(ValueError, match="sparsity"):
        rule(math.nan, 9)


def test_coarse_select_is_the_restatement(make, close):
    query, key, value = make(2, TOKENS, 4, 16), make(2, TOKENS, 2, 16), make(2, TOKENS, 2, 16)
    coarse_out, lut, lut_count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=3)
    tiles = restatement.tile_of_token(GRID, (4, 4, 4))
    ones, zeros = torch.ones(2, TOKENS, 4, 16).double(), torch.zeros(2, TOKENS, 4, 16).double()
    want, _, kept = restatement.attention(query.double(), key.double(), value.double(), ones,
                                          gate_fine=zeros, grid=GRID, topk=3)
    close(coarse_out.transpose(1, 2)[:, tiles], want)
    assert torch.equal(torch.zeros_like(kept).scatter(-1, lut.long(), True), kept)
    assert (lut_count == 3).all() and (lut.diff(dim=-1) > 0).all()


def test_T43_prefix_is_kept_and_attends_to_everything(make):
    prefix = (77, 0, 130)
    query, key, value = (make(1, sum(prefix) + TOKENS, 1, 8) for _ in range(3))
    _, lut, lut_count = vsa_torch.coarse_select(query, key, value, grid=GRID, prefix=prefix, sparsity=0.9)
    assert lut.shape[2:] == (13, 13)  # 2 + 3 of the prefix, 8 of the video
    assert lut_count[0, 0].tolist() == [13] * 5 + [5 + 1] * 8
    assert (lut[0, 0, :, :5] == torch.arange(5)).all()


STAGES = {
    "coarse_select": lambda q, k, v: vsa_torch.coarse_select(q, k, v, grid=(2, 3, 3), tile_shape=(2, 2, 2), topk=2)[0],
    "block_sparse_attention": lambda q, k, v: vsa_torch.block_sparse_attention(
        q, k, v, torch.tensor([[[[0, 2, -1], [1, -1, -1], [0, 1, 3], [-1, -1, -1]]]], dtype=torch.int32),
        torch.tensor([[[2, 1, 3, 0]]], dtype=torch.int32), grid=(2, 3, 3), tile_shape=(2, 2, 2)),
    "tile": lambda q, k, v: vsa_torch.tile(q * k + v, grid=(2, 3, 3), tile_shape=(2, 2, 2)),
    "untile": lambda q, k, v: vsa_torch.untile(
        vsa_torch.tile(q * k + v, grid=(2, 3, 3), tile_shape=(2, 2, 2)).sin(), grid=(2, 3, 3), tile_shape=(2, 2, 2)),
    "prefix_and_gates": lambda q, k, v: vsa_torch.video_sparse_attention(
        q, k, v, q * v, gate_fine=-0.5, grid=(2, 2, 4), tile_shape=(2, 2, 2), prefix=[2], topk=1, scale=0.7),
}


@pytest.mark.parametrize("name", STAGES)
def test_gradcheck_in_double(make, name):
    inputs = [make(1, 18, 1, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(STAGES[name], inputs, atol=1e-6)


@pytest.mark.parametrize("order", ["raster", "tiles"])
def test_the_stages_make_up_the_operator(make, close, order):
    leaves = [make(1, TOKENS, 2, 16, requires_grad=True) for _ in range(4)]
    query, key, value, gate = leaves
    coarse_out, lut, lut_count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=3)
    if order == "raster":
        fine = vsa_torch.block_sparse_attention(query, key, value, lut, lut_count, grid=GRID)
    else:
        tiled = [vsa_torch.tile(t, grid=GRID) for t in (query, key, value)]
        fine = vsa_torch.untile(vsa_torch.block_sparse_attention(
            *tiled, lut, lut_count, q_tile_len=vsa_torch.tile_lengths(GRID)), grid=GRID)
    spread = coarse_out.transpose(1, 2)[:, restatement.tile_of_token(GRID, (4, 4, 4))]
    whole = vsa_torch.video_sparse_attention(query, key, value, gate, grid=GRID, topk=3)
    staged = fine + gate * spread
    close(staged, whole.detach().double())
    dout = make(1, TOKENS, 2, 16)
    for a, b in zip(torch.autograd.grad(staged, leaves, dout), torch.autograd.grad(whole, leaves, dout)):
        close(a, b.double(), roundings=16)


def test_T14_T16_own_list_with_other_kv_and_an_empty_row(make, close):
    query = make(2, 192, 3, 16, requires_grad=True)
    key, value = (make(2, 448, 3, 16, requires_grad=True) for _ in range(2))
    lut = torch.full((2, 3, 3, 4), -1, dtype=torch.int32)
    lut[:, :, 0, :2] = torch.tensor([1, 6])
    lut[:, :, 2] = torch.tensor([0, 2, 3, 5])
    count = torch.tensor([2, 0, 4], dtype=torch.int32).expand(2, 3, 3)
    out, lse = vsa_torch.block_sparse_attention(query, key, value, lut, count, q_tile_len=[64] * 3,
                                                kv_tile_len=[64] * 7, return_lse=True)
    mask = torch.zeros(2, 3, 3, 7, dtype=torch.bool)
    mask[:, :, 0, [1, 6]] = True
    mask[:, :, 2, [0, 2, 3, 5]] = True
    mask = mask.repeat_interleave(64, 2).repeat_interleave(64, 3)
    doubles = [t.detach().double().requires_grad_() for t in (query, key, value)]
    # Only rows with keys enter the restatement's gradient: exp(-inf - -inf) would be NaN there.
    rows = torch.cat([torch.arange(64), torch.arange(128, 192)])
    want, want_lse = restatement.masked_attention(doubles[0][:, rows], *doubles[1:], mask[:, :, rows], 0.25)
    close(out[:, rows], want)
    close(lse[:, :, rows], want_lse)
    assert not out[:, 64:128].any() and (lse[:, :, 64:128] == -math.inf).all()
    dout = make(2, 192, 3, 16)
    grads = torch.autograd.grad(out, (query, key, value), dout)
    for grad, expected in zip(grads, torch.autograd.grad(want, doubles, dout[:, rows].double())):
        close(grad, expected, roundings=16)
    assert not grads[0][:, 64:128].any()
