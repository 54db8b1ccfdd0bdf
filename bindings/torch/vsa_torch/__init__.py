"""Video Sparse Attention for PyTorch: the operators of libvsa with autograd and torch.compile.

    out = vsa_torch.video_sparse_attention(query, key, value, grid=(21, 30, 52), sparsity=0.9)

Tensors are [B, S, H, D] in raster order (frames slowest, columns fastest). The stages are there for
those who want to put something between them, and `torch.ops.vsa` holds the operators themselves.
"""

from vsa_torch import _library  # noqa: F401  loads torch.ops.vsa
from vsa_torch import _registration  # noqa: F401  fake kernels and autograd
from vsa_torch.attention import (
    block_sparse_attention,
    coarse_select,
    tile,
    untile,
    video_sparse_attention,
)
from vsa_torch import lists, masks
from vsa_torch.tiling import num_tiles, tile_lengths, tokens_in_order, topk_from_sparsity

__all__ = [
    "block_sparse_attention",
    "coarse_select",
    "lists",
    "masks",
    "num_tiles",
    "tile",
    "tile_lengths",
    "tokens_in_order",
    "topk_from_sparsity",
    "untile",
    "video_sparse_attention",
]
