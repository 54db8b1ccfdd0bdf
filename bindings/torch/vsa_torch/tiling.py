"""Tiles of a video: how many there are, how many tokens each holds, in which order, how many a sparsity keeps."""

import functools
import math

import torch

from vsa_torch import _checks

ORDERS = ("raster", "gilbert", "gilbert-frames")  # libvsa's TokenOrder
_COMPACT = 3  # after them: a sequence in tile order without padding
_CURVE_TOKENS = (64, 128)


def tile_lengths(grid, tile_shape=(4, 4, 4), prefix=(), order="raster"):
    """Valid tokens of every tile, as a list: prefix tiles first, then raster order over the tiles, or along the curve.

    grid, tile_shape: (f, h, w) in tokens. prefix: tokens of each segment before the video. order: that of
    video_sparse_attention.
    Raises ValueError.
    """
    grid, tiling, prefix = _layout("tile_lengths", grid, tile_shape, prefix, order)
    tokens = tile_tokens(tiling)
    if len(tiling) == 4:
        prefix = [*prefix, math.prod(grid)]
    chunks = [min(tokens, length - start) for length in prefix for start in range(0, length, tokens)]
    if len(tiling) == 4:
        return chunks
    edges = [[min(edge, extent - start) for start in range(0, extent, edge)]
             for extent, edge in zip(grid, tiling)]
    return chunks + [f * h * w for f in edges[0] for h in edges[1] for w in edges[2]]


def num_tiles(grid, tile_shape=(4, 4, 4), prefix=(), order="raster"):
    """Tiles of the video and its prefix segments; partial tiles count however little they hold. Raises ValueError."""
    return count_tiles(*_layout("num_tiles", grid, tile_shape, prefix, order))


def tokens_in_order(grid, tile_shape=(4, 4, 4), order="raster"):
    """The positions in raster order of a video's tokens, tile after tile: int64 [f * h * w] on the CPU.

    x[:, tokens] brings a tensor [B, S, ...] into tile order without padding, as video_sparse_attention takes it with
    q_tile_len=tile_lengths(grid, tile_shape, order=order) and padded=False, and x[:, tokens.argsort()] brings it back.
    Raises ValueError.
    """
    grid, tiling, _ = _layout("tokens_in_order", grid, tile_shape, (), order)
    return _tokens(grid, tiling).clone()


@functools.lru_cache(maxsize=16)
def _tokens(grid, tiling):
    # float64 holds every position exactly.
    positions = torch.arange(1, math.prod(grid) + 1, dtype=torch.float64)
    tiled = torch.ops.vsa.tile(positions.view(1, -1, 1, 1).expand(1, -1, 1, 8).contiguous(), grid, tiling, None)
    found = tiled[0, :, 0, 0].to(torch.int64)
    return found[found > 0] - 1  # padding is 0


def topk_from_sparsity(sparsity, num_kv_tiles):
    """Tiles that a sparsity keeps: max(1, min(ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles)).

    In double precision as FastVideo computes it, so a sparsity of 0.9 keeps 1 of 10 tiles but 63 of
    624. A sparsity <= 0 keeps all, >= 1 keeps one; the operators take none above 1.
    Raises ValueError if sparsity is NaN or infinite, or num_kv_tiles < 1; TypeError if sparsity is no number.
    """
    operation = "topk_from_sparsity"
    sparsity = _checks.number(operation, "sparsity", sparsity)
    num_kv_tiles = _checks.integer(operation, "num_kv_tiles", num_kv_tiles, 1, _checks.MAX_TOKENS)
    return kept_tiles(sparsity, num_kv_tiles)


# --- of arguments that were checked ----------------------------------------------------------------
#
# A tiling is what the operators take as tile_shape: three edges, and for an order other than raster a fourth number.


def tiling_of(operation, tile_shape, order, padded=True):
    """The tiling of a tile_shape and an order, or of a sequence in tile order. Raises ValueError."""
    tile_shape = _checks.tile_shape(operation, tile_shape)
    order = _checks.choice(operation, "order", order, ORDERS)
    if not padded:
        return (*tile_shape, _COMPACT)
    if order == "raster":
        return tile_shape
    tokens = math.prod(tile_shape)
    if tokens not in _CURVE_TOKENS:
        raise ValueError(f"[{operation}] tile_shape: expected 64 or 128 tokens in a tile with order {order}, got "
                         f"{tokens}")
    return (*tile_shape, ORDERS.index(order))


def tile_tokens(tiling):
    """Slots of a tile."""
    f, h, w, *_ = tiling
    return f * h * w


def count_tiles(grid, tiling, prefix=()):
    """As num_tiles."""
    f, h, w = grid
    tokens = tile_tokens(tiling)
    if len(tiling) == 4:
        video = -(-(f * h * w) // tokens)
    else:
        tile_f, tile_h, tile_w = tiling
        video = -(-f // tile_f) * -(-h // tile_h) * -(-w // tile_w)
    if not prefix:
        return video
    return video + sum([-(-length // tokens) for length in prefix])


def kept_tiles(sparsity, num_kv_tiles):
    """As topk_from_sparsity."""
    return max(1, min(math.ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles))


def _layout(operation, grid, tile_shape, prefix, order):
    return (_checks.extents(operation, "grid", grid), tiling_of(operation, tile_shape, order),
            _checks.prefix_lengths(operation, prefix))
