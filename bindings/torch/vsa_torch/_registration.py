"""Fake kernels and autograd of torch.ops.vsa: what the stable ABI cannot register."""

import math

import torch

from vsa_torch._errors import call
from vsa_torch.tiling import num_tiles

_FORWARD = ("video_sparse_attention", "coarse_select", "block_sparse_attention", "tile", "untile")
_BACKWARD = ("video_sparse_attention_backward", "coarse_select_backward",
             "block_sparse_attention_backward")


def _tile_dtype(query):
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _tiles(grid, tile_shape, prefix, tile_len):
    return len(tile_len) if tile_len else num_tiles(grid, tile_shape, prefix)


def _lut(query, tiles, topk, prefix):
    """Empty tables as `select` makes them; prefix tiles keep everything, so rows are full width."""
    batch, heads = query.shape[0], query.shape[2]
    lut = query.new_empty((batch, heads, tiles, tiles if sum(prefix) else topk), dtype=torch.int32)
    return lut, query.new_empty((batch, heads, tiles), dtype=torch.int32)


def _last_axis_contiguous(grad):
    """The gradient as libvsa takes it: sum() and its like give expanded ones."""
    return grad if grad.stride(-1) == 1 else grad.contiguous()


# --- fake kernels --------------------------------------------------------------------------------


@torch.library.register_fake("vsa::video_sparse_attention")
def _(query, key, value, gate_coarse, gate_fine, gate_coarse_weight, gate_fine_weight, grid,
      tile_shape, topk, scale, prefix, q_tile_len, kv_tile_len, coarse_rounding, save_for_backward):
    batch, seq_len, heads, _ = query.shape
    lut, lut_count = _lut(query, _tiles(grid, tile_shape, prefix, q_tile_len), topk, prefix)
    return (query.new_empty(query.shape),
            query.new_empty((batch, heads, seq_len), dtype=_tile_dtype(query)),
            query.new_empty(query.shape if save_for_backward else (0,)), lut, lut_count)


@torch.library.register_fake("vsa::video_sparse_attention_backward")
def _(dout, query, key, value, gate_coarse, gate_fine, gate_coarse_weight, gate_fine_weight, lse,
      fine_out, lut, lut_count, grid, tile_shape, scale, prefix, q_tile_len, kv_tile_len):
    return (query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape),
            query.new_empty((0,) if gate_coarse is None else query.shape),
            query.new_empty((0,) if gate_fine is None else query.shape))


@torch.library.register_fake("vsa::coarse_select")
def _(query, key, value, grid, tile_shape, topk, scale, prefix, coarse_rounding):
    batch, _, heads, head_dim = query.shape
    tiles = num_tiles(grid, tile_shape, prefix)
    coarse_out = query.new_empty((batch, heads, tiles, head_dim), dtype=_tile_dtype(query))
    return coarse_out, *_lut(query, tiles, topk, prefix)


@torch.library.register_fake("vsa::block_sparse_attention")
def _(query, key, value, lut, lut_count, tile_shape, q_grid, kv_grid, q_tile_len, kv_tile_len,
      scale):
    batch, seq_len, heads, _ = query.shape
    return (query.new_empty(query.shape),
            query.new_empty((batch, heads, seq_len), dtype=_tile_dtype(query)))


@torch.library.register_fake("vsa::coarse_select_backward")
def _(dcoarse_out, query, key, value, *_):
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


@torch.library.register_fake("vsa::block_sparse_attention_backward")
def _(dout, query, key, value, *_):
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


@torch.library.register_fake("vsa::tile")
def _(x, grid, tile_shape, prefix):
    padded = num_tiles(grid, tile_shape, prefix) * math.prod(tile_shape)
    return x.new_empty((x.shape[0], padded, *x.shape[2:]))


@torch.library.register_fake("vsa::untile")
def _(tiled, grid, tile_shape, prefix):
    return tiled.new_empty((tiled.shape[0], math.prod(grid) + sum(prefix), *tiled.shape[2:]))


# --- autograd ------------------------------------------------------------------------------------


def _attention_setup(ctx, inputs, output):
    query, key, value, gate_coarse, gate_fine, *constants, saves = inputs
    *weights, grid, tile_shape, _, scale, prefix, q_tile_len, kv_tile_len, _ = constants
    _, lse, fine_out, lut, lut_count = output
    ctx.mark_non_differentiable(lse, fine_out, lut, lut_count)
    ctx.saves = saves
    if saves:
        ctx.save_for_backward(query, key, value, gate_coarse, gate_fine, lse, fine_out, lut, lut_count)
    ctx.weights, ctx.constants = weights, (grid, tile_shape, scale, prefix, q_tile_len, kv_tile_len)


def _attention_backward(ctx, dout, *_):
    if not ctx.saves:
        raise ValueError("[video_sparse_attention_backward] save_for_backward: expected True in the "
                         "forward call, got False")
    query, key, value, gate_coarse, gate_fine, *forward = ctx.saved_tensors
    dq, dk, dv, dcoarse, dfine = call(
        torch.ops.vsa.video_sparse_attention_backward, _last_axis_contiguous(dout), query, key, value, gate_coarse, gate_fine, *ctx.weights, *forward,
        *ctx.constants)
    return (dq, dk, dv, None if gate_coarse is None else dcoarse, None if gate_fine is None else dfine,
            *[None] * 11)


def _coarse_setup(ctx, inputs, output):
    query, key, value, grid, tile_shape, _, scale, prefix, _ = inputs
    ctx.mark_non_differentiable(output[1], output[2])
    ctx.save_for_backward(query, key, value)
    ctx.constants = grid, tile_shape, scale, prefix


def _coarse_backward(ctx, dcoarse_out, *_):
    grads = call(torch.ops.vsa.coarse_select_backward, _last_axis_contiguous(dcoarse_out), *ctx.saved_tensors,
                 *ctx.constants)
    return *grads, *[None] * 6


def _sparse_setup(ctx, inputs, output):
    query, key, value, lut, lut_count, *constants = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(query, key, value, out, lse, lut, lut_count)
    ctx.constants = constants


def _sparse_backward(ctx, dout, _):
    grads = call(torch.ops.vsa.block_sparse_attention_backward, _last_axis_contiguous(dout), *ctx.saved_tensors,
                 *ctx.constants)
    return *grads, *[None] * 8


def _tiling_setup(ctx, inputs, output):
    _, *ctx.constants = inputs


def _tile_backward(ctx, dtiled):
    return call(torch.ops.vsa.untile, _last_axis_contiguous(dtiled), *ctx.constants), None, None, None


def _untile_backward(ctx, dx):
    return call(torch.ops.vsa.tile, _last_axis_contiguous(dx), *ctx.constants), None, None, None


for _name, _backward, _setup in (
        ("video_sparse_attention", _attention_backward, _attention_setup),
        ("coarse_select", _coarse_backward, _coarse_setup),
        ("block_sparse_attention", _sparse_backward, _sparse_setup),
        ("tile", _tile_backward, _tiling_setup),
        ("untile", _untile_backward, _tiling_setup)):
    torch.library.register_autograd(f"vsa::{_name}", _backward, setup_context=_setup)


# --- what there is not ---------------------------------------------------------------------------


def _no_second_derivative(name):
    def backward(ctx, *grads):
        raise NotImplementedError(f"[{name}] expected no second derivative, got create_graph=True: "
                                  "gradients of gradients are not implemented")
    return backward


for _name in _BACKWARD:
    torch.library.register_autograd(f"vsa::{_name}", _no_second_derivative(_name))
