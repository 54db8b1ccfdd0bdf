"""Masks of tiles, and their union with lists."""

import pytest
import torch

import vsa_torch
from vsa_torch import lists, masks

GRID = (5, 6, 7)


@pytest.mark.parametrize("order, grid, least, mean, most", [
    ("gilbert-frames", (21, 30, 52), 6, 13.52, 23), ("gilbert-frames", (21, 22, 39), 6, 10.86, 16),
    ("gilbert", (21, 30, 52), 5, 17.08, 31)])
def test_as_many_neighbours_as_jenga_finds(order, grid, least, mean, most):
    mask = masks.neighbours(grid, (2, 8, 8), order)
    counts = mask.sum(1)
    assert (int(counts.min()), int(counts.max())) == (least, most)
    assert counts.double().mean().item() == pytest.approx(mean, abs=0.0051)
    assert torch.equal(mask, mask.T) and bool(mask.diagonal().all())


def test_cuboids_have_neighbours_in_the_grid_of_tiles():
    mask = masks.neighbours((8, 12, 16))
    place = torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(4))
    assert torch.equal(mask, (place[:, None] - place).abs().amax(-1) <= 1)


def test_first_frame_and_window():
    grid, shape = (8, 4, 8), (2, 4, 4)  # two tiles to each pair of frames
    pair = torch.arange(8) // 2
    assert torch.equal(masks.first_frame(grid, shape), (pair[:, None] == 0) & (pair == 0))
    assert torch.equal(masks.window(grid, 0, shape), pair[:, None] == pair)
    assert torch.equal(masks.window(grid, 1, shape), (pair[:, None] - pair).abs() <= 1)
    assert bool(masks.window(grid, 5, shape).all())


@pytest.mark.parametrize("order", ["raster", "gilbert"])
def test_a_union_contains_its_parts_and_attention_takes_it(make, order):
    query, key, value = (make(1, 210, 2, 16) for _ in range(3))
    query.requires_grad_()
    _, lut, count = vsa_torch.coarse_select(query, key, value, grid=GRID, topk=1, order=order)
    mask = masks.first_frame(GRID, order=order)
    united, united_count = masks.unite(lut, count, mask)
    kept = lists.to_map(united, united_count, mask.shape[1])
    assert torch.equal(kept, lists.to_map(lut, count, mask.shape[1]) | mask)
    out = vsa_torch.block_sparse_attention(query, key, value, united, united_count, grid=GRID, order=order)
    tiles = masks._tiles("test", GRID, (4, 4, 4), order).flatten()
    seen = kept[0][:, tiles][:, :, tiles]
    want = torch.nn.functional.scaled_dot_product_attention(
        *[x.double().transpose(1, 2) for x in (query, key, value)], attn_mask=seen[None])
    assert torch.allclose(out.double(), want.transpose(1, 2), atol=1e-5)
    out.sum().backward()
    assert bool(query.grad.isfinite().all())


def test_what_does_not_fit_is_refused(make):
    with pytest.raises(ValueError, match=r"\[neighbours\] grid: expected"):
        masks.neighbours((0, 4, 4))
    with pytest.raises(ValueError, match=r"\[window\] frames: expected 0 to"):
        masks.window(GRID, -1)
    lut, count = torch.zeros(1, 2, 3, 1, dtype=torch.int32), torch.ones(1, 2, 3, dtype=torch.int32)
    for mask in (torch.zeros(3, 5), torch.zeros(4, 5, dtype=torch.bool), torch.zeros(1, 3, 3, 5, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"\[unite\] mask: expected"):
            masks.unite(lut, count, mask)
    with pytest.raises(TypeError, match=r"\[unite\] mask: expected a tensor"):
        masks.unite(lut, count, [[True]])
