"""Tiles of a video: how many there are, how many tokens each holds, how many a sparsity keeps."""

import math

from vsa_torch import _checks


def tile_lengths(grid, tile_shape=(4, 4, 4), prefix=()):
    """Valid tokens of every tile, as a list: prefix tiles first, then raster order over the tiles.

    grid, tile_shape: (f, h, w) in tokens. prefix: tokens of each segment before the video.
    Raises ValueError.
    """
    grid, tile_shape, prefix = _layout("tile_lengths", grid, tile_shape, prefix)
    tokens = math.prod(tile_shape)
    chunks = [min(tokens, length - start) for length in prefix for start in range(0, length, tokens)]
    edges = [[min(edge, extent - start) for start in range(0, extent, edge)]
             for extent, edge in zip(grid, tile_shape)]
    return chunks + [f * h * w for f in edges[0] for h in edges[1] for w in edges[2]]


def num_tiles(grid, tile_shape=(4, 4, 4), prefix=()):
    """Tiles of the video and its prefix segments; edge tiles count however little they hold. Raises ValueError."""
    return count_tiles(*_layout("num_tiles", grid, tile_shape, prefix))


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


def count_tiles(grid, tile_shape, prefix=()):
    """As num_tiles."""
    (f, h, w), (tile_f, tile_h, tile_w) = grid, tile_shape
    video = -(-f // tile_f) * -(-h // tile_h) * -(-w // tile_w)
    if not prefix:
        return video
    tokens = tile_f * tile_h * tile_w
    return video + sum([-(-length // tokens) for length in prefix])


def kept_tiles(sparsity, num_kv_tiles):
    """As topk_from_sparsity."""
    return max(1, min(math.ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles))


def _layout(operation, grid, tile_shape, prefix):
    return (_checks.extents(operation, "grid", grid), _checks.tile_shape(operation, tile_shape),
            _checks.prefix_lengths(operation, prefix))
