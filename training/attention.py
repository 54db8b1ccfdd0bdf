"""Video Sparse Attention restated in plain PyTorch: pool, coarse, select, fine, combine.

Tensors are [B, H, S, D] in tile order without padding: the tokens of tile 0 in (t, h, w) raster
order, then those of tile 1, and so on. An edge tile is shorter than the others, never padded.
N counts tiles, T the tokens of a full tile, S the tokens of the grid.
"""
from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class TilePlan:
    """How a grid of tokens is cut into tiles. Plans are shared, see `tile_plan`."""

    order: Tensor  # [S] int64: raster index of each token in tile order
    inverse: Tensor  # [S] int64: place in tile order of each token in raster order
    slots: Tensor  # [N, T] int64: place in tile order of a tile's tokens; 0 where there is none
    valid: Tensor  # [N, T] bool: whether the slot holds a token
    is_full: bool  # every tile holds T tokens, so splitting is a view
    tile_shape: tuple[int, int, int]  # edges of a tile in tokens; T is their product

    @property
    def num_tiles(self) -> int:
        return self.slots.shape[0]


@functools.lru_cache(maxsize=16)
def tile_plan(grid: tuple, tile_shape: tuple, device: torch.device | str = "cpu") -> TilePlan:
    """The plan of a grid (F, H, W) and tile edges (f, h, w), both in tokens."""
    tile_tokens = math.prod(tile_shape)
    raster = torch.arange(math.prod(grid)).reshape(grid)
    corners = itertools.product(*(range(0, n, edge) for n, edge in zip(grid, tile_shape)))
    tiles = [
        raster[t : t + tile_shape[0], h : h + tile_shape[1], w : w + tile_shape[2]].flatten()
        for t, h, w in corners
    ]
    order = torch.cat(tiles)
    slots = torch.zeros(len(tiles), tile_tokens, dtype=torch.int64)
    valid = torch.zeros(len(tiles), tile_tokens, dtype=torch.bool)
    start = 0
    for n, tile in enumerate(tiles):
        slots[n, : len(tile)] = torch.arange(start, start + len(tile))
        valid[n, : len(tile)] = True
        start += len(tile)
    tensors = (order, order.argsort(), slots, valid)
    return TilePlan(*(t.to(device) for t in tensors), is_full=bool(valid.all()), tile_shape=tile_shape)


def topk_of(sparsity: float, num_tiles: int) -> int:
    """Tiles kept per query tile: ceil((1 - sparsity) * N), at least 1 and at most N."""
    return max(1, min(math.ceil((1.0 - sparsity) * num_tiles), num_tiles))


def split(x: Tensor, plan: TilePlan) -> Tensor:
    """[B, H, S, D] to [B, H, N, T, D]; slots without a token are 0."""
    if plan.is_full:
        return x.unflatten(2, plan.slots.shape)
    return x[:, :, plan.slots] * plan.valid[..., None]


def join(x: Tensor, plan: TilePlan) -> Tensor:
    """[B, H, N, T, D] to [B, H, S, D]; slots without a token are dropped."""
    if plan.is_full:
        return x.flatten(2, 3)
    return x[:, :, plan.valid]


def pool(x: Tensor, plan: TilePlan) -> Tensor:
    """Mean over the valid tokens of each tile, [B, H, N, D], in fp32 or better."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return split(x, plan).sum(3, dtype=wide) / plan.valid.sum(1, dtype=wide)[:, None]


def coarse(q: Tensor, k: Tensor, v: Tensor, plan: TilePlan, scale: float) -> tuple[Tensor, Tensor]:
    """Attention between all pooled tiles: scores [B, H, N, N] and output [B, H, N, D]."""
    # Mixed-precision training keeps this part wide: near scores decide which tiles are kept.
    with torch.autocast(q.device.type, enabled=False):
        scores = pool(q, plan) @ pool(k, plan).transpose(-1, -2) * scale
        return scores, scores.softmax(-1) @ pool(v, plan)


@torch.compiler.disable  # the compiler's own sort takes it most of a minute to build
def select(scores: Tensor, topk: int) -> Tensor:
    """The `topk` kv tiles of each row by (score descending, index ascending), NaN last.

    Returns int64 [B, H, N, topk], indices ascending. -0 equals +0. A constant in backward.
    """
    scores = scores.detach()
    is_nan = scores.isnan()
    # torch.topk leaves the order of ties open, a stable sort does not. The second sort moves NaN
    # behind a real -inf.
    order = scores.masked_fill(is_nan, -math.inf).argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, is_nan.gather(-1, order).to(torch.uint8).argsort(dim=-1, stable=True))
    return order[..., :topk].sort(-1).values


def fine(q: Tensor, k: Tensor, v: Tensor, lut: Tensor, plan: TilePlan, scale: float) -> Tensor:
    """Token-level attention of each query tile to the kv tiles in its row of `lut`."""
    num_tiles, topk = plan.num_tiles, lut.shape[-1]
    rows = lut.flatten(2)  # [B, H, N * topk]

    def kept(x: Tensor) -> Tensor:  # [B * H * N, topk * T, D]
        tiles = split(x, plan).flatten(3)
        if torch.is_grad_enabled():
            # A product with one-hot rows gathers exactly too, and its backward is a product on the
            # matrix units, where that of gather is atomic additions.
            tiles = F.one_hot(rows, num_tiles).to(x.dtype) @ tiles
        else:
            tiles = tiles.gather(2, rows[..., None].expand(-1, -1, -1, tiles.shape[-1]))
        return tiles.reshape(-1, topk * plan.slots.shape[1], x.shape[-1])

    mask = None
    if not plan.is_full:
        mask = plan.valid[lut].flatten(3).reshape(-1, 1, topk * plan.slots.shape[1])
    q_tiles = split(q, plan)
    out = F.scaled_dot_product_attention(
        q_tiles.flatten(0, 2)[:, None],
        kept(k)[:, None],
        kept(v)[:, None],
        attn_mask=None if mask is None else mask[:, None],
        scale=scale,
    )
    return join(out.reshape(q_tiles.shape), plan)


def combine(fine_out: Tensor, coarse_out: Tensor, gate: Tensor, plan: TilePlan) -> Tensor:
    """fine_out + gate * coarse_out, the latter repeated for all tokens of its tile."""
    repeated = coarse_out.to(fine_out.dtype)[:, :, :, None].expand(-1, -1, -1, plan.slots.shape[1], -1)
    return fine_out + gate * join(repeated, plan)


def attention(
    q: Tensor, k: Tensor, v: Tensor, gate: Tensor, plan: TilePlan, topk: int, scale: float | None = None
) -> Tensor:
    """The whole operator, [B, H, S, D]. With topk = N: dense attention plus gate * coarse."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores, coarse_out = coarse(q, k, v, plan, scale)
    if topk == plan.num_tiles:
        fine_out = F.scaled_dot_product_attention(q, k, v, scale=scale)
    else:
        fine_out = fine(q, k, v, select(scores, topk), plan, scale)
    return combine(fine_out, coarse_out, gate, plan)
