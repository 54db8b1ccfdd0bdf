"""Video Sparse Attention written token by token, in fp64 with a full mask: what the tests trust."""
import itertools
import math

import torch
from torch import Tensor


def tile_of_token(grid: tuple, tile_shape: tuple) -> Tensor:
    """[S] tile index of each token in raster order."""
    counts = [math.ceil(n / edge) for n, edge in zip(grid, tile_shape)]
    tiles = []
    for position in itertools.product(*(range(n) for n in grid)):
        index = 0
        for coordinate, edge, count in zip(position, tile_shape, counts):
            index = index * count + coordinate // edge
        tiles.append(index)
    return torch.tensor(tiles)


def kept_tiles(scores: Tensor, topk: int) -> list[int]:
    """The topk indices of one row by (score descending, index ascending), NaN last."""
    key = lambda j: (math.isnan(scores[j]), -scores[j] if not math.isnan(scores[j]) else 0.0, j)
    return sorted(sorted(range(len(scores)), key=key)[:topk])


def attention(q, k, v, gate, grid, tile_shape, topk) -> Tensor:
    """All tensors [B, H, S, D] in raster order."""
    tile = tile_of_token(grid, tile_shape)
    num_tiles = int(tile.max()) + 1
    member = (tile[None, :] == torch.arange(num_tiles)[:, None]).to(q.dtype)  # [N, S]
    mean = member / member.sum(1, keepdim=True)
    scale = q.shape[-1] ** -0.5
    scores = torch.einsum("bhid,bhjd->bhij", mean @ q, mean @ k) * scale
    coarse_out = scores.softmax(-1) @ (mean @ v)  # [B, H, N, D]
    allowed = torch.zeros(*scores.shape[:3], num_tiles, dtype=torch.bool)
    for b, h, i in itertools.product(*(range(n) for n in scores.shape[:3])):
        allowed[b, h, i, kept_tiles(scores[b, h, i].tolist(), topk)] = True
    mask = allowed[:, :, tile][..., tile]  # [B, H, S, S]
    logits = (q @ k.transpose(-1, -2) * scale).masked_fill(~mask, -math.inf)
    return logits.softmax(-1) @ v + gate * coarse_out[:, :, tile]
