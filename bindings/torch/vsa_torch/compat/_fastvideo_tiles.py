"""fastvideo_kernel's helpers for the tiles of a video: orders, sizes and slots, as tensors."""

import math

import torch

from vsa_torch import _checks, tiling

VSA_TILE_SIZE = (4, 4, 4)


def get_tile_partition_indices(dit_seq_shape, tile_size, device="cpu"):
    """[S] int64: the raster position of every token in tile order, without padding."""
    operation = "get_tile_partition_indices"
    dit_seq_shape = _checks.extents(operation, "dit_seq_shape", dit_seq_shape)
    tile_size = _checks.extents(operation, "tile_size", tile_size)
    f, h, w = (torch.arange(extent, device=device) // edge for extent, edge in zip(dit_seq_shape, tile_size))
    across = [-(-extent // edge) for extent, edge in zip(dit_seq_shape, tile_size)]
    tile = (f[:, None, None] * across[1] + h[:, None]) * across[2] + w
    return torch.argsort(tile.flatten(), stable=True)


def get_reverse_tile_partition_indices(dit_seq_shape, tile_size, device="cpu"):
    """The inverse permutation."""
    return torch.argsort(get_tile_partition_indices(dit_seq_shape, tile_size, device))


def construct_variable_block_sizes(dit_seq_shape, num_tiles, device="cpu", tile_size=VSA_TILE_SIZE):
    """[N] int32: valid tokens of every tile; num_tiles is the grid of tiles (t, h, w)."""
    across = tuple(-(-extent // edge) for extent, edge in zip(dit_seq_shape, tile_size))
    if tuple(num_tiles) != across:
        raise ValueError(f"[construct_variable_block_sizes] num_tiles: expected {across}, got {tuple(num_tiles)}")
    return torch.tensor(tiling.tile_lengths(dit_seq_shape, tile_size), dtype=torch.int32, device=device)


def get_non_pad_index(variable_block_sizes, max_block_size):
    """[S] int64: the slots of the valid tokens when every tile has max_block_size slots."""
    slots = torch.arange(max_block_size, device=variable_block_sizes.device)
    starts = torch.arange(variable_block_sizes.numel(), device=slots.device) * max_block_size
    return (starts[:, None] + slots)[slots < variable_block_sizes[:, None]]


def build_vsa_metadata(dit_seq_shape, tile_size=VSA_TILE_SIZE, device=None):
    """All of the above for a video, as a dict, by default on the GPU, if there is one, as the original has it."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    num_tiles = tuple(-(-extent // edge) for extent, edge in zip(dit_seq_shape, tile_size))
    sizes = construct_variable_block_sizes(dit_seq_shape, num_tiles, device, tile_size)
    return {
        "tile_partition_indices": get_tile_partition_indices(dit_seq_shape, tile_size, device),
        "reverse_tile_partition_indices": get_reverse_tile_partition_indices(dit_seq_shape, tile_size, device),
        "variable_block_sizes": sizes,
        "non_pad_index": get_non_pad_index(sizes, math.prod(tile_size)),
        "num_tiles": num_tiles,
        "max_block_size": math.prod(tile_size),
    }
