"""The operators as functions: keyword arguments, checks in PyTorch's words, autocast."""

import functools
from typing import NamedTuple

import torch
from torch.autograd import forward_ad

from vsa_torch import _checks, _inference
from vsa_torch._registration import call
from vsa_torch.tiling import count_tiles, kept_tiles, tile_tokens, tiling_of

_ROUNDINGS = ("none", "bfloat16")

# The calls of libvsa that a gradient takes.
_BACKWARD = {"video_sparse_attention": ("attention_backward",),
             "coarse_select": ("coarse_backward", "pool_backward"),
             "block_sparse_attention": ("fine_backward",)}
_NO_GRADIENT_ON_CUDA = frozenset(
    operation for operation, calls in _BACKWARD.items()
    if not all(torch.ops.vsa.implements("cuda", name) for name in calls))


def video_sparse_attention(query, key, value, gate_coarse=None, *, grid=None, tile_shape=(4, 4, 4),
                           topk=None, sparsity=None, scale=None, prefix=None, gate_fine=None,
                           q_tile_len=None, kv_tile_len=None, coarse_rounding="none", return_lse=False,
                           order="raster", padded=True):
    """Video Sparse Attention: out = gate_fine * fine + gate_coarse * coarse.

    query        [B, S, H, D] float32, bfloat16 or float16, raster order, last axis contiguous. D is a multiple of 8
                 up to 256; on CUDA it is 64 or 128. float64 runs on the slow reference backend, for gradcheck
    key, value   [B, S, H_kv, D], same dtype and device; H % H_kv == 0
    gate_coarse  [B, S, H, D] like query, or a number for all of it. None is 0: the coarse branch only selects tiles,
                 as in models trained without a gate
    grid         (f, h, w): the size of the video in tokens; S = prefix tokens + f * h * w
    tile_shape   edges of a tile in tokens; a tile has at most 256 tokens
    topk         how many key tiles of the video each query tile keeps, from 1 to their number; or
    sparsity     the share of the key tiles that each query tile ignores, at most 1, see topk_from_sparsity
    scale        the factor of query . key, rounded to float32; default 1 / sqrt(D)
    prefix       the number of tokens in each segment before the video (text, conditions). Segments are cut into tiles
                 of their own. All queries attend to these tiles, and their queries attend to everything
    gate_fine    like gate_coarse; None is 1
    q_tile_len, kv_tile_len
                 instead of grid, for sequences in tile order: the number of valid tokens in each tile of
                 prod(tile_shape) slots, of which the valid ones come first. Padding is not read, and is 0 in out.
                 kv_tile_len defaults to q_tile_len; key and value may have another length than query
    coarse_rounding
                 "bfloat16" rounds the means, scores and weights of the coarse branch as FastVideo does, for models
                 trained with it; "none" keeps float32
    order        the order in which the tokens of the grid are cut into tiles. "raster": cuboids of tile_shape.
                 "gilbert" and "gilbert-frames": runs of prod(tile_shape) tokens, 64 or 128, of a generalised Hilbert
                 curve through the video or through each frame, so that all tiles but the last are full. Tensors are
                 in raster order all the same; tokens_in_order says how to bring them into tile order
    padded       False, with q_tile_len: the tensors have no slots for padding, but tile after tile of q_tile_len tokens

    Returns out [B, S, H, D], or with return_lse (out, lse), where lse [B, H, S] float32 is the natural logarithm of the
    softmax denominator and has no gradient. The selection is a constant in backward. Results are deterministic: the
    same bits every time. Under autocast inputs are cast as for scaled_dot_product_attention.

    Raises ValueError and TypeError, whose messages name the argument; NotImplementedError for a device or head_dim that
    is not supported and for forward-mode differentiation; torch.OutOfMemoryError.
    Cost: 4 D FLOP for every pair of tokens in a query tile and a key tile it keeps, and for every pair of tiles. No
    S x S matrix is stored. For a gradient, the output of the fine stage, lse and the list of tiles are stored beside
    the inputs.
    """
    operation = "video_sparse_attention"
    _checks.flag(operation, "return_lse", return_lse)
    layout = grid, q_tile_len, kv_tile_len, tile_shape, prefix
    gates = gate_coarse, gate_fine
    rest = topk, sparsity, scale, coarse_rounding, order, padded
    if (not return_lse and q_tile_len is None and kv_tile_len is None and padded is True
            and _inference.serves(query, key, value, *gates)
            and _inference.are_plain(grid, tile_shape, prefix, topk, sparsity, scale, coarse_rounding, order)):
        try:
            numbers = [None if type(gate) is torch.Tensor else gate for gate in gates]
            options = _options(grid, tile_shape, tuple(prefix) if prefix else None, *numbers, *rest[:-1])
            return _inference.call(query, key, value, *gates, options)
        except (ValueError, NotImplementedError, torch.OutOfMemoryError):
            _attention_arguments(query, key, value, gates, layout, rest)  # says it in PyTorch's words
            raise
    *arguments, needs_grad = _attention_arguments(query, key, value, gates, layout, rest)
    out, lse, *_ = call(operation, needs_grad, *arguments, needs_grad)
    return (out, lse) if return_lse else out


def attention_of_means(query, key, value, gate_coarse, q_pooled, k_pooled, *, grid, tile_shape, topk):
    """video_sparse_attention of plain tensors without gradients, whose tiles have these means: norm_rope_pool computed
    them. grid and tile_shape are tuples of ints; gate_coarse is a tensor or None."""
    options = _options(grid, tile_shape, None, None, None, topk, None, None, "none", "raster")
    return _inference.call(query, key, value, gate_coarse, None, options, q_pooled, k_pooled)


def _attention_arguments(query, key, value, gates, layout, rest):
    """What the operator takes, checked; the last is whether a gradient is asked for."""
    operation = "video_sparse_attention"
    grid, q_tile_len, kv_tile_len, tile_shape, prefix = layout
    topk, sparsity, scale, coarse_rounding, order, padded = rest
    tile_shape = _tiling(operation, tile_shape, order, padded, grid)
    prefix = _checks.prefix_lengths(operation, prefix)
    _either(operation, grid=grid, q_tile_len=q_tile_len)
    if grid is None and prefix:
        raise ValueError(f"[{operation}] prefix: expected none with q_tile_len, got {prefix}")
    if grid is not None and kv_tile_len is not None:
        raise ValueError(f"[{operation}] kv_tile_len: expected none with grid, got {kv_tile_len}")
    q = kv = _side(operation, "q", grid, q_tile_len, tile_shape, prefix)
    if kv_tile_len is not None:
        kv = _side(operation, "kv", None, kv_tile_len, tile_shape)
    coarse_tensor, coarse_weight = _gate(operation, "gate_coarse", gates[0], 0.0)
    fine_tensor, fine_weight = _gate(operation, "gate_fine", gates[1], 1.0)
    tensors = _autocast(query, key, value, coarse_tensor, fine_tensor)
    gates = [(name, tensor) for name, tensor in zip(("gate_coarse", "gate_fine"), tensors[3:]) if tensor is not None]
    _checks.qkv(operation, *tensors[:3], q.sequence, kv.sequence, gates=gates)
    topk = _topk(operation, topk, sparsity,
                 count_tiles(q.grid, tile_shape) if grid is not None else len(kv.tile_len))
    return (*tensors, coarse_weight, fine_weight, q.grid, tile_shape, topk, _scale(operation, scale), prefix or None,
            q.tile_len, kv.tile_len, _checks.choice(operation, "coarse_rounding", coarse_rounding, _ROUNDINGS),
            _needs_grad(operation, *tensors))


@functools.lru_cache(maxsize=256)
def _options(grid, tile_shape, prefix, gate_coarse, gate_fine, topk, sparsity, scale, coarse_rounding, order):
    """The arguments beside the tensors, checked, as the text that torch.ops.vsa.inference takes."""
    operation = "video_sparse_attention"
    tile_shape = tiling_of(operation, tile_shape, order)
    prefix = _checks.prefix_lengths(operation, prefix)
    grid = _checks.extents(operation, "grid", grid)
    weights = _gate(operation, "gate_coarse", gate_coarse, 0.0)[1], _gate(operation, "gate_fine", gate_fine, 1.0)[1]
    topk = _topk(operation, topk, sparsity, count_tiles(grid, tile_shape))
    scale = "none" if scale is None else _scale(operation, scale)
    rounding = _checks.choice(operation, "coarse_rounding", coarse_rounding, _ROUNDINGS)
    tiling = tile_shape if len(tile_shape) == 4 else (*tile_shape, 0)
    return " ".join(map(str, (*grid, *tiling, topk, scale, *weights, rounding, *prefix)))


def coarse_select(query, key, value, *, grid, tile_shape=(4, 4, 4), topk=None, sparsity=None,
                  scale=None, prefix=None, coarse_rounding="none", order="raster"):
    """The stages pool, coarse and select. Arguments as for video_sparse_attention.

    Returns three tensors:
    coarse_out  [B, H, N, D] float32, one row for each tile; it has a gradient
    lut         [B, H, N, pitch] int32: the kv tiles that each query tile keeps, ascending, then -1. pitch is topk, or N
                with a prefix, because its query tiles keep all
    lut_count   [B, H, N] int32: how many tiles each query tile keeps

    Raises as video_sparse_attention.
    Cost: pooling reads the inputs once; then 4 D FLOP and one score in memory for every pair of tiles.
    """
    operation = "coarse_select"
    tile_shape = tiling_of(operation, tile_shape, order)
    prefix = _checks.prefix_lengths(operation, prefix)
    side = _side(operation, "q", grid, None, tile_shape, prefix)
    query, key, value = _autocast(query, key, value)
    _checks.qkv(operation, query, key, value, side.sequence, side.sequence)
    topk = _topk(operation, topk, sparsity, count_tiles(side.grid, tile_shape))
    return call(operation, _needs_grad(operation, query, key, value), query, key, value, side.grid, tile_shape, topk,
                _scale(operation, scale), prefix or None,
                _checks.choice(operation, "coarse_rounding", coarse_rounding, _ROUNDINGS))


def block_sparse_attention(query, key, value, lut, lut_count, *, tile_shape=(4, 4, 4), grid=None,
                           kv_grid=None, q_tile_len=None, kv_tile_len=None, scale=None,
                           return_lse=False, order="raster", padded=True):
    """The fine stage: attention of each query tile to the kv tiles on a list of the caller's.

    query           [B, Sq, H, D]
    key, value      [B, Sk, H_kv, D]
    lut, lut_count  [B, H, Nq, pitch] and [B, H, Nq] int32, as coarse_select returns them
    grid, kv_grid   the video in tokens, if query, and key and value, are in raster order; kv_grid defaults to grid
    q_tile_len, kv_tile_len
                    instead, if they are in tile order: the number of valid tokens in each tile of prod(tile_shape)
                    slots. kv_tile_len defaults to q_tile_len. Padding is never read
    order, padded   as for video_sparse_attention

    Returns out [B, Sq, H, D], or (out, lse), where lse [B, H, Sq] float32 is the natural logarithm of the softmax
    denominator. A query tile that keeps no tile gives 0 and -inf. Gradients, autocast, dtypes and errors are those of
    video_sparse_attention. A list that is not ascending, unique and in range is a ValueError on the CPU. On CUDA lists
    are not checked, and entries out of range are ignored.
    Cost: 4 D FLOP for every pair of tokens in a query tile and a key tile it keeps.
    """
    operation = "block_sparse_attention"
    _checks.flag(operation, "return_lse", return_lse)
    tile_shape = _tiling(operation, tile_shape, order, padded, grid)
    _either(operation, grid=grid, q_tile_len=q_tile_len)
    q = kv = _side(operation, "q", grid, q_tile_len, tile_shape)
    if kv_grid is not None or kv_tile_len is not None:
        _either(operation, kv_grid=kv_grid, kv_tile_len=kv_tile_len)
        kv = _side(operation, "kv", kv_grid, kv_tile_len, tile_shape)
    query, key, value = _autocast(query, key, value)
    _checks.qkv(operation, query, key, value, q.sequence, kv.sequence)
    _checks.table(operation, "lut", lut, query, 4)
    _checks.table(operation, "lut_count", lut_count, query, 3)
    out, lse = call(operation, _needs_grad(operation, query, key, value), query, key, value, lut.contiguous(),
                    lut_count.contiguous(), tile_shape, q.grid, kv.grid, q.tile_len, kv.tile_len,
                    _scale(operation, scale))
    return (out, lse) if return_lse else out


def tile(x, *, grid, tile_shape=(4, 4, 4), prefix=None, order="raster"):
    """[B, S, H, D] in raster order to [B, N * T, H, D] in tile order: N tiles of T slots, valid tokens first, the
    others 0. Any of the operators' dtypes; has a gradient. Raises ValueError, TypeError."""
    return _reorder("tile", "x", x, grid, tile_shape, prefix, order)


def untile(tiled, *, grid, tile_shape=(4, 4, 4), prefix=None, order="raster"):
    """The inverse of tile, [B, N * T, H, D] to [B, S, H, D]; padding is not read."""
    return _reorder("untile", "tiled", tiled, grid, tile_shape, prefix, order)


def _reorder(operation, name, x, grid, tile_shape, prefix, order):
    tile_shape = tiling_of(operation, tile_shape, order)
    prefix = _checks.prefix_lengths(operation, prefix)
    side = _side(operation, "q", grid, None, tile_shape, prefix)
    length, said_by = side.sequence
    if operation == "untile":
        length = count_tiles(side.grid, tile_shape, prefix) * tile_tokens(tile_shape)
    _checks.tensors(operation, **{name: x})
    _checks.tokens(operation, name, x)
    _checks.sequence(operation, name, x, length, said_by)
    _checks.strided(operation, name, x)
    return call(operation, _needs_grad(operation, x), x, side.grid, tile_shape, prefix or None)


# --- arguments -----------------------------------------------------------------------------------


class _Side(NamedTuple):
    """Where the tokens of queries or keys lie: in raster order of a grid, or in tile order by tile_len."""

    grid: tuple | None  # (f, h, w), or None with tile_len
    tile_len: list | None  # valid tokens of every tile, or None with a grid
    sequence: tuple  # length [S] of the tensors, and the argument that says so


def _side(operation, name, grid, tile_len, tile_shape, prefix=()):
    if grid is not None or tile_len is None:
        f, h, w = grid = _checks.extents(operation, "grid" if name == "q" else "kv_grid", grid)
        if prefix:
            return _Side(grid, None, (f * h * w + sum(prefix), "grid with prefix"))
        return _Side(grid, None, (f * h * w, "grid"))
    tokens = tile_tokens(tile_shape)
    lengths = _checks.tile_lengths(operation, f"{name}_tile_len", tile_len, tokens)
    length = sum(lengths) if len(tile_shape) == 4 else len(lengths) * tokens
    return _Side(None, lengths, (length, f"{name}_tile_len"))


def _tiling(operation, tile_shape, order, padded, grid):
    """The tiling of a call whose tensors are in raster order of a grid, or without one in tile order."""
    _checks.flag(operation, "padded", padded)
    tiling = tiling_of(operation, tile_shape, order, padded)
    if grid is not None and not padded:
        raise ValueError(f"[{operation}] padded: expected True with grid, got False; it is about q_tile_len")
    if grid is None and order != "raster":
        raise ValueError(f"[{operation}] order: expected none with q_tile_len, whose tensors are in tile order, got "
                         f"{order}")
    return tiling


def _either(operation, **pair):
    """Exactly one of two arguments is given."""
    (first, a), (second, b) = pair.items()
    if (a is None) == (b is None):
        raise ValueError(f"[{operation}] {first}: expected either {first} or {second}, got "
                         f"{'neither' if a is None else 'both'}")


def _needs_grad(operation, *tensors):
    """Whether a gradient will be asked for; refused before anything runs where there is none."""
    # Without this the tangents of forward-mode differentiation would be lost, and count as 0.
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0 and any(
            tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise NotImplementedError(f"[{operation}] expected no forward-mode differentiation (jvp), got a tensor with a "
                                  "tangent: there are gradients by backward alone")
    if not torch.is_grad_enabled() or not any([tensor is not None and tensor.requires_grad for tensor in tensors]):
        return False
    if tensors[0].is_cuda and operation in _NO_GRADIENT_ON_CUDA:
        raise NotImplementedError(f"[{operation}] requires_grad: expected False on cuda, where this build has no "
                                  "backward, got True; use torch.no_grad()")
    return True


def _scale(operation, scale):
    return None if scale is None else _checks.number(operation, "scale", scale)


def _gate(operation, name, gate, absent):
    """(tensor or None, the number that holds where there is no tensor)"""
    if isinstance(gate, torch.Tensor):
        return gate, 0.0
    return None, absent if gate is None else _checks.number(operation, name, gate)


def _topk(operation, topk, sparsity, tiles):
    """The number of kept tiles of the video from whichever of topk and sparsity was given."""
    _either(operation, topk=topk, sparsity=sparsity)
    if topk is None:
        return kept_tiles(_checks.share(operation, "sparsity", sparsity), tiles)
    return _checks.integer(operation, "topk", topk, 1, tiles, " (tiles of the video)")


def _autocast(*tensors):
    """The float32, float16 and bfloat16 tensors in autocast's dtype, where autocast is on."""
    device = tensors[0].device.type if isinstance(tensors[0], torch.Tensor) else "cpu"
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point()
                 and t.dtype != torch.float64 else t for t in tensors)
