"""The operators as functions: keyword arguments, checks in PyTorch's words, autocast."""

import math

import torch

from vsa_torch import _checks
from vsa_torch._errors import call
from vsa_torch.tiling import extents, num_tiles, topk_from_sparsity

# The calls of libvsa that a gradient takes.
_BACKWARD = {"video_sparse_attention": ("attention_backward",),
             "coarse_select": ("coarse_backward", "pool_backward"),
             "block_sparse_attention": ("fine_backward",)}
_NO_GRADIENT_ON_CUDA = frozenset(
    operation for operation, calls in _BACKWARD.items()
    if not all(torch.ops.vsa.implements("cuda", name) for name in calls))


def video_sparse_attention(query, key, value, gate_coarse=None, *, grid=None, tile_shape=(4, 4, 4),
                           topk=None, sparsity=None, scale=None, prefix=None, gate_fine=None,
                           q_tile_len=None, kv_tile_len=None, coarse_rounding="none", return_lse=False):
    """Video Sparse Attention: out = gate_fine * fine + gate_coarse * coarse.

    query        [B, S, H, D] float32, bfloat16, float16 (or float64: the slow reference backend, for
                 checks), raster order, last axis contiguous; D a multiple of 8 up to 256
    key, value   [B, S, H_kv, D], same dtype and device; H % H_kv == 0
    gate_coarse  [B, S, H, D] like query, or a number for all of it; None is 0: the coarse branch
                 only selects, as for models trained without it
    grid         (f, h, w): the video in tokens; S = prefix tokens + f * h * w
    tile_shape   edges of a tile in tokens, at most 256 tokens
    topk         key tiles of the video that every query tile keeps, 1 to their number; or
    sparsity     the share that is left out, see topk_from_sparsity
    scale        multiplies query . key, as a float32; default 1 / sqrt(D)
    prefix       tokens of each segment before the video (text, conditions): they are cut into tiles
                 of their own, kept by every query, and attend to everything
    gate_fine    like gate_coarse; None is 1
    q_tile_len, kv_tile_len  instead of grid, for sequences in tile order: the valid tokens of every
                 tile of prod(tile_shape) slots, first in their tile; padding is not read, and is 0
                 in out. kv_tile_len defaults to q_tile_len; key and value may be longer or shorter
    coarse_rounding  "bfloat16" rounds means, scores and weights of the coarse branch on its way as
                 FastVideo does, for models trained with it; "none" keeps float32

    Returns out [B, S, H, D], or (out, lse) with lse [B, H, S] in natural log, float32; lse is not
    differentiable. The selection is a constant in backward. Deterministic: the same bits every time.
    Under autocast the inputs are cast to its dtype, as for scaled_dot_product_attention.

    Raises ValueError (the message names the argument), NotImplementedError (device, head_dim),
    torch.OutOfMemoryError.
    """
    operation = "video_sparse_attention"
    tile_shape = extents("tile_shape", tile_shape)
    prefix = _checks.prefix_lengths(operation, prefix)
    if (grid is None) == (q_tile_len is None):
        raise ValueError(f"[{operation}] grid: expected either grid or q_tile_len, got "
                         f"{'neither' if grid is None else 'both'}")
    if grid is None and prefix:
        raise ValueError(f"[{operation}] prefix: expected none with q_tile_len, got {prefix}")
    grid, q_len, q_seq = _side(grid, q_tile_len, tile_shape)
    _, kv_len, kv_seq = (grid, q_len, q_seq) if kv_tile_len is None else _side(None, kv_tile_len, tile_shape)
    if grid and kv_len:
        raise ValueError(f"[{operation}] kv_tile_len: expected none with grid, got {len(kv_len)} tiles")
    coarse_tensor, coarse_weight = _gate(operation, "gate_coarse", gate_coarse, 0.0)
    fine_tensor, fine_weight = _gate(operation, "gate_fine", gate_fine, 1.0)
    if fine_tensor is None and fine_weight != 1.0:
        fine_tensor = torch.full_like(query, fine_weight)
    query, key, value, coarse_tensor, fine_tensor = _autocast(query, key, value, coarse_tensor, fine_tensor)
    gates = [(name, tensor) for name, tensor in (("gate_coarse", coarse_tensor), ("gate_fine", fine_tensor))
             if tensor is not None]
    _checks.qkv(operation, query, key, value, q_seq + sum(prefix), kv_seq + sum(prefix), gates=gates)
    topk = _topk(operation, topk, sparsity, len(kv_len) if kv_len else num_tiles(grid, tile_shape))
    tensors = (query, key, value, coarse_tensor, fine_tensor)
    needs_grad = _needs_grad(operation, *tensors)
    out, lse, *_ = call(torch.ops.vsa.video_sparse_attention, *tensors, coarse_weight, grid, tile_shape,
                        topk, _checks.number(operation, "scale", scale), prefix, q_len, kv_len,
                        coarse_rounding, needs_grad)
    return (out, lse) if return_lse else out


def coarse_select(query, key, value, *, grid, tile_shape=(4, 4, 4), topk=None, sparsity=None,
                  scale=None, prefix=None, coarse_rounding="none"):
    """The stages pool, coarse and select. Arguments as for video_sparse_attention.

    Returns coarse_out [B, H, N, D] float32 (one row a tile), lut [B, H, N, pitch] int32 (kv tiles
    that each query tile keeps: ascending, tail -1) and lut_count [B, H, N] int32.
    """
    operation = "coarse_select"
    grid, tile_shape = extents("grid", grid), extents("tile_shape", tile_shape)
    prefix = _checks.prefix_lengths(operation, prefix)
    query, key, value = _autocast(query, key, value)
    _checks.qkv(operation, query, key, value, math.prod(grid) + sum(prefix))
    _needs_grad(operation, query, key, value)
    topk = _topk(operation, topk, sparsity, num_tiles(grid, tile_shape))
    return call(torch.ops.vsa.coarse_select, query, key, value, grid, tile_shape, topk,
                _checks.number(operation, "scale", scale), prefix, coarse_rounding)


def block_sparse_attention(query, key, value, lut, lut_count, *, tile_shape=(4, 4, 4), grid=None,
                           kv_grid=None, q_tile_len=None, kv_tile_len=None, scale=None,
                           return_lse=False):
    """The fine stage over a list that the caller brings.

    query [B, Sq, H, D], key and value [B, Sk, H_kv, D]; lut [B, H, Nq, pitch] and lut_count
    [B, H, Nq] int32 as coarse_select gives them. Each side is either in raster order of its grid
    (kv_grid defaults to grid), or in tile order: then q_tile_len and kv_tile_len (default: the same)
    list the valid tokens of every tile of prod(tile_shape) slots, and padding is never read.

    Returns out [B, Sq, H, D], or (out, lse). A row without tiles gives 0 and -inf.
    """
    operation = "block_sparse_attention"
    tile_shape = extents("tile_shape", tile_shape)
    if (grid is None) == (q_tile_len is None):
        raise ValueError(f"[{operation}] grid: expected either grid or q_tile_len, got "
                         f"{'neither' if grid is None else 'both'}")
    q_grid, q_len, q_seq = _side(grid, q_tile_len, tile_shape)
    if kv_grid is None and kv_tile_len is None:
        kv_grid, kv_tile_len = grid, q_tile_len
    elif kv_grid is not None and kv_tile_len is not None:
        raise ValueError(f"[{operation}] kv_grid: expected either kv_grid or kv_tile_len, got both")
    k_grid, k_len, kv_seq = _side(kv_grid, kv_tile_len, tile_shape)
    query, key, value = _autocast(query, key, value)
    _checks.qkv(operation, query, key, value, q_seq, kv_seq)
    _needs_grad(operation, query, key, value)
    _checks.table(operation, "lut", lut, query, 4)
    _checks.table(operation, "lut_count", lut_count, query, 3)
    out, lse = call(torch.ops.vsa.block_sparse_attention, query, key, value, lut.contiguous(),
                    lut_count.contiguous(), tile_shape, q_grid, k_grid, q_len, k_len,
                    _checks.number(operation, "scale", scale))
    return (out, lse) if return_lse else out


def tile(x, *, grid, tile_shape=(4, 4, 4), prefix=None):
    """[B, S, H, D] in raster order to [B, N * T, H, D] in tile order; padding is 0."""
    return _reorder("tile", x, grid, tile_shape, prefix)


def untile(tiled, *, grid, tile_shape=(4, 4, 4), prefix=None):
    """The inverse of tile; padding is not read."""
    return _reorder("untile", tiled, grid, tile_shape, prefix)


def _reorder(operation, x, grid, tile_shape, prefix):
    grid, tile_shape = extents("grid", grid), extents("tile_shape", tile_shape)
    prefix = _checks.prefix_lengths(operation, prefix)
    return call(getattr(torch.ops.vsa, operation), x, grid, tile_shape, prefix)


def _side(grid, tile_len, tile_shape):
    """(grid, tile_len, sequence length) of one side, an empty list for what it has not."""
    if grid is not None:
        grid = extents("grid", grid)
        return grid, [], math.prod(grid)
    lengths = tile_len.tolist() if isinstance(tile_len, torch.Tensor) else list(tile_len)
    return [], lengths, len(lengths) * math.prod(tile_shape)


def _needs_grad(operation, *tensors):
    """Whether a gradient will be asked for; refused before anything runs where there is no backward."""
    needs = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    if needs and tensors[0].is_cuda and operation in _NO_GRADIENT_ON_CUDA:
        raise NotImplementedError(f"[{operation}] requires_grad: expected False on cuda, where this build has no "
                                  "backward, got True; use torch.no_grad()")
    return needs


def _gate(operation, name, gate, absent):
    """(tensor or None, the number that holds where there is no tensor)"""
    if isinstance(gate, torch.Tensor):
        return gate, 0.0
    return None, absent if gate is None else _checks.number(operation, name, gate)


def _topk(operation, topk, sparsity, tiles):
    """The number of kept tiles of the video from whichever of topk and sparsity was given."""
    if (topk is None) == (sparsity is None):
        raise ValueError(f"[{operation}] topk: expected either topk or sparsity, got "
                         f"{'neither' if topk is None else 'both'}")
    if topk is None:
        return topk_from_sparsity(sparsity, tiles)
    if not isinstance(topk, int) or not 1 <= topk <= tiles:
        raise ValueError(f"[{operation}] topk: expected 1 to {tiles} (tiles of the video), got {topk}")
    return topk


def _autocast(*tensors):
    """The float32, float16 and bfloat16 tensors in autocast's dtype, where autocast is on."""
    device = tensors[0].device.type if isinstance(tensors[0], torch.Tensor) else "cpu"
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point()
                 and t.dtype != torch.float64 else t for t in tensors)
