"""Tiles of a video: how many there are, how many tokens each holds, how many a sparsity keeps."""

import math

MAX_TILE_TOKENS = 256


def extents(name, value):
    """`value` as a tuple of three positive ints (frames, rows, columns)."""
    value = tuple(value)
    if len(value) != 3 or not all(isinstance(e, int) and e > 0 for e in value):
        raise ValueError(f"{name}: expected three positive ints (f, h, w), got {value}")
    return value


def tile_lengths(grid, tile_shape=(4, 4, 4), prefix=()):
    """Valid tokens of every tile, as a list: prefix tiles first, then raster order over the tiles.

    grid, tile_shape: (f, h, w) in tokens. prefix: tokens of each segment before the video.
    """
    grid, tile_shape = extents("grid", grid), extents("tile_shape", tile_shape)
    tokens = math.prod(tile_shape)
    chunks = [min(tokens, length - start) for length in prefix for start in range(0, length, tokens)]
    edges = [[min(edge, extent - start) for start in range(0, extent, edge)]
             for extent, edge in zip(grid, tile_shape)]
    return chunks + [f * h * w for f in edges[0] for h in edges[1] for w in edges[2]]


def num_tiles(grid, tile_shape=(4, 4, 4), prefix=()):
    """Tiles of the video and its prefix segments; edge tiles count however little they hold."""
    grid, tile_shape = extents("grid", grid), extents("tile_shape", tile_shape)
    tokens = math.prod(tile_shape)
    video = math.prod([-(-extent // edge) for extent, edge in zip(grid, tile_shape)])
    return video + sum([-(-length // tokens) for length in prefix])


def topk_from_sparsity(sparsity, num_kv_tiles):
    """Tiles that a sparsity keeps: max(1, min(ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles)).

    In double precision as FastVideo computes it, so a sparsity of 0.9 keeps 1 of 10 tiles but 63 of
    624. A sparsity <= 0 keeps all, >= 1 keeps one.
    """
    if not math.isfinite(sparsity):
        raise ValueError(f"sparsity: expected a finite number, got {sparsity}")
    if num_kv_tiles < 1:
        raise ValueError(f"num_kv_tiles: expected at least 1, got {num_kv_tiles}")
    return max(1, min(math.ceil((1 - sparsity) * num_kv_tiles), num_kv_tiles))
