"""The operator of vsa_torch in the place of attention.py's: the same function, with the kernels that users run."""
from __future__ import annotations

import vsa_torch
from torch import Tensor

from training.attention import TilePlan


def attention(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, plan: TilePlan, topk: int) -> Tensor:
    """[B, H, S, D] in tile order, as attention.attention takes and returns them. Every tile must be full."""
    if not plan.is_full:
        raise ValueError("[operator] plan: expected a grid of whole tiles, got one with partial tiles at its edges")
    query, key, value, gate_coarse = (t.transpose(1, 2) for t in (q, k, v, gate))
    # Tokens in tile order are those of a video one tile high and wide, in raster order.
    f, h, w = plan.tile_shape
    out = vsa_torch.video_sparse_attention(
        query, key, value, gate_coarse, grid=(plan.num_tiles * f, h, w), tile_shape=plan.tile_shape, topk=topk
    )
    return out.transpose(1, 2)
