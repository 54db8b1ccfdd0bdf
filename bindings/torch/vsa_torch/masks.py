"""Masks of tiles: pairs of a query tile and a key tile that are kept whatever their scores.

A mask is a bool tensor [N, N], True where query tile i keeps key tile j, of a video that attends to itself; `unite`
adds it to a list, which block_sparse_attention then takes:

    _, lut, lut_count = vsa_torch.coarse_select(query, key, value, grid=grid, order=order, sparsity=0.8)
    lut, lut_count = masks.unite(lut, lut_count, masks.neighbours(grid, order=order))
    out = vsa_torch.block_sparse_attention(query, key, value, lut, lut_count, grid=grid, order=order)

Masks of other rules are tensors of your own. The functions have no gradients. They raise ValueError and TypeError,
whose messages name the argument.
"""

import itertools

import torch

from vsa_torch import _checks, lists
from vsa_torch.tiling import num_tiles, tile_lengths, tokens_in_order


def neighbours(grid, tile_shape=(4, 4, 4), order="raster"):
    """Each tile and all tiles that hold one of the 26 tokens around a token of it, on the CPU."""
    tiles = _tiles("neighbours", grid, tile_shape, order)
    mask = _none(grid, tile_shape, order)
    for steps in itertools.product((-1, 0, 1), repeat=3):
        here = tiles[tuple([slice(max(0, -step), min(n, n - step)) for step, n in zip(steps, tiles.shape)])]
        there = tiles[tuple([slice(max(0, step), min(n, n + step)) for step, n in zip(steps, tiles.shape)])]
        mask[here.flatten(), there.flatten()] = True
    return mask


def first_frame(grid, tile_shape=(4, 4, 4), order="raster"):
    """The tiles that hold a token of the first frame see each other, on the CPU."""
    first = _tiles("first_frame", grid, tile_shape, order)[0].unique()
    mask = _none(grid, tile_shape, order)
    mask[first[:, None], first] = True
    return mask


def window(grid, frames, tile_shape=(4, 4, 4), order="raster"):
    """Tiles that hold tokens whose frames are at most `frames` apart; with 0, tiles that share a frame. On the CPU."""
    frames = _checks.integer("window", "frames", frames, 0, _checks.MAX_TOKENS)
    tiles = _tiles("window", grid, tile_shape, order)
    frame = torch.arange(tiles.shape[0])[:, None, None].expand_as(tiles).flatten()
    count = num_tiles(grid, tile_shape, order=order)
    first, last = (torch.zeros(count, dtype=torch.int64).scatter_reduce(0, tiles.flatten(), frame, how,
                                                                        include_self=False) for how in ("amin", "amax"))
    return (first[:, None] - last <= frames) & (first - last[:, None] <= frames)


def unite(lut, lut_count, mask):
    """The list with the tiles of a mask [Nq, Nk] or [B, H, Nq, Nk] added to each row. Waits for the device."""
    _checks.readable("unite", lut=lut, lut_count=lut_count, mask=mask)
    if mask.dtype != torch.bool or mask.dim() not in (2, 4) or lut.dim() != 4 or mask.shape[-2] != lut.shape[2]:
        raise ValueError(f"[unite] mask: expected bool [Nq,Nk] or [B,H,Nq,Nk] with the {tuple(lut.shape)[2:3]} query "
                         f"tiles of lut, got {_checks.described(mask)}")
    kept = lists.to_map(lut, lut_count, mask.shape[-1])
    if mask.dim() == 4 and mask.shape != kept.shape:
        raise ValueError(f"[unite] mask: expected {list(kept.shape)}, got {_checks.described(mask)}")
    return lists.from_map(kept | mask.to(lut.device))


def _tiles(operation, grid, tile_shape, order):
    """The tile of each token, [f, h, w]."""
    grid = _checks.extents(operation, "grid", grid)
    lengths = torch.tensor(tile_lengths(grid, tile_shape, order=order))
    of_places = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    return torch.empty_like(of_places).index_copy(0, tokens_in_order(grid, tile_shape, order), of_places).view(grid)


def _none(grid, tile_shape, order):
    return torch.zeros((num_tiles(grid, tile_shape, order=order),) * 2, dtype=torch.bool)
