"""The restated operator against the naive one, in fp64."""
import pytest
import torch
import torch.nn.functional as F

from training import attention as vsa
from training.tests import naive

GRIDS = [((4, 8, 8), (4, 4, 4)), ((5, 6, 7), (4, 4, 4)), ((3, 5, 4), (2, 2, 2)), ((2, 3, 5), (4, 4, 4))]
# fp64 sums of a few hundred terms of order 1.
TOLERANCE = dict(rtol=0, atol=1e-12)


def inputs(grid, heads=2, head_dim=8, batch=2):
    generator = torch.Generator().manual_seed(sum(grid))
    shape = (batch, heads, grid[0] * grid[1] * grid[2], head_dim)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for _ in range(4)
    ]


def in_raster_order(tensors, plan, topk):
    q, k, v, gate = (t[:, :, plan.order] for t in tensors)
    return vsa.attention(q, k, v, gate, plan, topk)[:, :, plan.inverse]


@pytest.mark.parametrize("grid,tile_shape", GRIDS)
@pytest.mark.parametrize("topk", [1, 2, 3, 1000])
def test_matches_the_naive_operator_with_gradients(grid, tile_shape, topk):
    plan = vsa.tile_plan(grid, tile_shape)
    topk = min(topk, plan.num_tiles)
    tensors = inputs(grid)
    ours, theirs = in_raster_order(tensors, plan, topk), naive.attention(*tensors, grid, tile_shape, topk)
    torch.testing.assert_close(ours, theirs, **TOLERANCE)
    weight = torch.randn(ours.shape, dtype=ours.dtype, generator=torch.Generator().manual_seed(3))
    for mine, reference in zip(
        torch.autograd.grad((ours * weight).sum(), tensors),
        torch.autograd.grad((theirs * weight).sum(), tensors),
    ):
        torch.testing.assert_close(mine, reference, **TOLERANCE)


@pytest.mark.parametrize("grid,tile_shape", GRIDS)
def test_without_gradients_the_result_is_the_same(grid, tile_shape):
    plan = vsa.tile_plan(grid, tile_shape)
    tensors, topk = inputs(grid), min(2, plan.num_tiles)
    with torch.no_grad():
        out = in_raster_order(tensors, plan, topk)
    torch.testing.assert_close(out, in_raster_order(tensors, plan, topk).detach(), **TOLERANCE)


def test_gradients_match_central_differences():
    grid, tile_shape = (3, 2, 3), (2, 2, 2)
    plan = vsa.tile_plan(grid, tile_shape)
    tensors = inputs(grid, heads=1, head_dim=2, batch=1)
    assert torch.autograd.gradcheck(lambda *t: in_raster_order(t, plan, 2), tensors)


@pytest.mark.parametrize("grid,tile_shape", GRIDS)
def test_all_tiles_kept_is_dense_attention_plus_the_gated_coarse_branch(grid, tile_shape):
    plan = vsa.tile_plan(grid, tile_shape)
    q, k, v, gate = tensors = inputs(grid)
    out = in_raster_order(tensors, plan, plan.num_tiles)
    _, coarse_out = vsa.coarse(*(t[:, :, plan.order] for t in (q, k, v)), plan, q.shape[-1] ** -0.5)
    tile = naive.tile_of_token(grid, tile_shape)
    expected = F.scaled_dot_product_attention(q, k, v) + gate * coarse_out[:, :, tile]
    torch.testing.assert_close(out, expected, **TOLERANCE)


def test_a_dropped_tile_changes_the_result():
    """Guards the tests above: they would pass if topk were ignored."""
    grid, tile_shape = GRIDS[1]
    plan = vsa.tile_plan(grid, tile_shape)
    tensors = inputs(grid)
    kept_all, kept_two = (in_raster_order(tensors, plan, topk) for topk in (plan.num_tiles, 2))
    assert (kept_all - kept_two).abs().max() > 1e-2


def test_plan_is_a_bijection_with_partial_tiles():
    plan = vsa.tile_plan((5, 6, 7), (4, 4, 4))
    assert plan.num_tiles == 8 and not plan.is_full
    assert sorted(plan.order.tolist()) == list(range(210))
    assert plan.valid.sum(1).tolist() == [64, 48, 32, 24, 16, 12, 8, 6]
    x = torch.arange(210.0).view(1, 1, 210, 1)
    assert torch.equal(vsa.join(vsa.split(x, plan), plan), x)


@pytest.mark.parametrize(
    "row,topk,kept",
    [
        ([1.0, 1.0, 1.0, 1.0], 2, [0, 1]),
        ([0.0, 2.0, 1.0, 2.0, 2.0], 2, [1, 3]),
        ([-0.0, 0.0, -1.0, 0.0], 2, [0, 1]),
        ([0.0, -0.0, -1.0, 0.0], 1, [0]),
        ([float("nan"), -float("inf"), float("nan"), 5.0], 2, [1, 3]),
        ([float("nan"), -float("inf"), float("nan"), 5.0], 3, [0, 1, 3]),
    ],
)
def test_ties_go_to_the_lower_index_and_nan_comes_last(row, topk, kept):
    assert vsa.select(torch.tensor(row), topk).tolist() == kept
    assert naive.kept_tiles(row, topk) == kept


@pytest.mark.parametrize("sparsity,num_tiles,topk", [(0, 32, 32), (0.5, 32, 16), (0.75, 32, 8),
                                                     (0.875, 32, 4), (0.9, 7, 1), (0.99, 32, 1), (0.75, 33, 9)])
def test_topk_rounds_up(sparsity, num_tiles, topk):
    assert vsa.topk_of(sparsity, num_tiles) == topk
