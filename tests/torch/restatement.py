"""The operator in plain PyTorch from its definition, without tiles in memory: what the tests compare with.

Everything is [B, S, H, D] and float64; S is small, so masks of S x S are fine.
"""

import itertools
import math

import torch


def tile_of_token(grid, tile_shape, prefix=()):
    """[S] int64: the tile every token of the sequence belongs to."""
    tokens = math.prod(tile_shape)
    tiles, first = [], 0
    for length in prefix:
        tiles += [first + i // tokens for i in range(length)]
        first += -(-length // tokens)
    across = [-(-g // t) for g, t in zip(grid, tile_shape)]
    for f, h, w in itertools.product(*map(range, grid)):
        tf, th, tw = f // tile_shape[0], h // tile_shape[1], w // tile_shape[2]
        tiles.append(first + (tf * across[1] + th) * across[2] + tw)
    return torch.tensor(tiles)


def repeat_heads(x, heads):
    return x.repeat_interleave(heads // x.shape[2], dim=2)


def masked_attention(query, key, value, mask, scale):
    """(out, lse) of softmax over the keys that mask [B, H, Sq, Sk] allows; empty rows give 0, -inf."""
    key, value = repeat_heads(key, query.shape[2]), repeat_heads(value, query.shape[2])
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * scale
    scores = scores.masked_fill(~mask, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.where(mask, torch.exp(scores - lse.unsqueeze(-1)), 0.0)
    return torch.einsum("bhqk,bkhd->bqhd", weights, value), lse


def pooled(x, tiles):
    """Means over the tiles, [B, N, H, D]."""
    num = int(tiles.max()) + 1
    member = torch.nn.functional.one_hot(tiles, num).to(x.dtype)
    return torch.einsum("sn,bshd->bnhd", member / member.sum(0), x)


def kept_tiles(scores, topk, num_prefix):
    """[B, H, N, N] bool: prefix tiles, and the topk best others by (score, then lower index)."""
    kept = torch.zeros(scores.shape, dtype=torch.bool)
    order = torch.argsort(scores[..., num_prefix:], dim=-1, descending=True, stable=True) + num_prefix
    kept.scatter_(-1, order[..., :topk], True)
    kept[..., :num_prefix] = True
    kept[..., :num_prefix, :] = True
    return kept


def attention(query, key, value, gate_coarse=None, *, grid, topk, tile_shape=(4, 4, 4), scale=None,
              prefix=(), gate_fine=None):
    """(out, lse, kept) of the whole operator; an absent coarse gate is 0, an absent fine gate 1."""
    heads = query.shape[2]
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    tiles = tile_of_token(grid, tile_shape, prefix)
    qp, kp, vp = (pooled(repeat_heads(x, heads), tiles) for x in (query, key, value))
    scores = torch.einsum("bnhd,bmhd->bhnm", qp, kp) * scale
    num_prefix = sum(-(-length // math.prod(tile_shape)) for length in prefix)
    kept = kept_tiles(scores.detach(), topk, num_prefix)
    out, lse = masked_attention(query, key, value, kept[:, :, tiles][..., tiles], scale)
    if gate_fine is not None:
        out = out * gate_fine
    if gate_coarse is not None:
        coarse = torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), vp)
        out = out + gate_coarse * coarse[:, tiles]
    return out, lse, kept
