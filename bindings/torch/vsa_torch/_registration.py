"""Fake kernels and autograd of torch.ops.vsa: what the stable ABI cannot register."""

import math

import torch

from vsa_torch._library import BACKWARD, IN_PLACE
from vsa_torch.tiling import count_tiles, tile_tokens


def _tile_dtype(query):
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _tiles(grid, tile_shape, prefix, tile_len):
    return len(tile_len) if tile_len else count_tiles(grid, tile_shape, prefix)


def _lut(query, tiles, topk, prefix):
    """Empty tables as `select` makes them; prefix tiles keep everything, so rows are full width."""
    batch, heads = query.shape[0], query.shape[2]
    lut = query.new_empty((batch, heads, tiles, tiles if sum(prefix or ()) else topk), dtype=torch.int32)
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


@torch.library.register_fake("vsa::inference")
def _(query, key, value, gate_coarse, gate_fine, options, q_pooled=None, k_pooled=None):
    for tensor in (key, value, gate_coarse, gate_fine, q_pooled, k_pooled):  # this kernel also runs if only one of them is on meta
        if tensor is not None and tensor.device != query.device:
            raise ValueError(f"[inference] expected tensors on {query.device}, got one on {tensor.device}")
    return query.new_empty(query.shape)


@torch.library.register_fake("vsa::video_sparse_attention_backward")
def _(dout, query, key, value, gate_coarse, gate_fine, gate_coarse_weight, gate_fine_weight, lse,
      fine_out, lut, lut_count, grid, tile_shape, scale, prefix, q_tile_len, kv_tile_len):
    return (query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape),
            query.new_empty((0,) if gate_coarse is None else query.shape),
            query.new_empty((0,) if gate_fine is None else query.shape))


@torch.library.register_fake("vsa::coarse_select")
def _(query, key, value, grid, tile_shape, topk, scale, prefix, coarse_rounding):
    batch, _, heads, head_dim = query.shape
    tiles = count_tiles(grid, tile_shape, prefix)
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
    padded = count_tiles(grid, tile_shape, prefix) * tile_tokens(tile_shape)
    return x.new_empty((x.shape[0], padded, *x.shape[2:]))


@torch.library.register_fake("vsa::untile")
def _(tiled, grid, tile_shape, prefix):
    return tiled.new_empty((tiled.shape[0], math.prod(grid) + sum(prefix or ()), *tiled.shape[2:]))


@torch.library.register_fake("vsa::norm_rope_pool")
def _(x, grid, tile_shape, prefix, norm, eps=1e-6, weight=None, rstd=None, cos=None, sin=None, pool=True):
    if not pool:
        return x.new_empty((0,), dtype=_tile_dtype(x))
    tiles = count_tiles(grid, tile_shape, prefix)
    return x.new_empty((x.shape[0], x.shape[2], tiles, x.shape[3]), dtype=_tile_dtype(x))


@torch.library.register_fake("vsa::residual_norm")
def _(x, y=None, gate=None, scale=None, shift=None, eps=1e-6, norm=True, out_dtype=None):
    dtype = out_dtype or (x if y is None else y).dtype
    return x.new_empty(x.shape if norm else (0,), dtype=dtype)


# --- autograd ------------------------------------------------------------------------------------
#
# Each operator has a setup, which keeps what backward needs, and a backward. Only some outputs are differentiable. No
# zeros are materialised as gradients of the others; a gradient that is None means that there is none.


def _attention_setup(ctx, inputs, output):
    query, key, value, gate_coarse, gate_fine, *constants, saves = inputs
    *weights, grid, tile_shape, _, scale, prefix, q_tile_len, kv_tile_len, _ = constants
    _, lse, fine_out, lut, lut_count = output
    ctx.mark_non_differentiable(lse, fine_out, lut, lut_count)
    ctx.set_materialize_grads(False)
    ctx.saves = saves
    if saves:
        ctx.save_for_backward(query, key, value, gate_coarse, gate_fine, lse, fine_out, lut, lut_count)
    ctx.weights, ctx.constants = weights, (grid, tile_shape, scale, prefix, q_tile_len, kv_tile_len)


def _attention_backward(ctx, dout, *_):
    if dout is None:
        return (None,) * 16
    if not ctx.saves:
        raise ValueError("[video_sparse_attention_backward] save_for_backward: expected True in the "
                         "forward call, got False")
    query, key, value, gate_coarse, gate_fine, *forward = ctx.saved_tensors
    dq, dk, dv, dcoarse, dfine = _call_backward(
        torch.ops.vsa.video_sparse_attention_backward.default, _last_axis_contiguous(dout), query, key, value,
        gate_coarse, gate_fine, *ctx.weights, *forward, *ctx.constants)
    return (dq, dk, dv, None if gate_coarse is None else dcoarse, None if gate_fine is None else dfine,
            *[None] * 11)


def _coarse_setup(ctx, inputs, output):
    query, key, value, grid, tile_shape, _, scale, prefix, _ = inputs
    ctx.mark_non_differentiable(output[1], output[2])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value)
    ctx.constants = grid, tile_shape, scale, prefix


def _coarse_backward(ctx, dcoarse_out, *_):
    if dcoarse_out is None:
        return (None,) * 9
    grads = _call_backward(torch.ops.vsa.coarse_select_backward.default, _last_axis_contiguous(dcoarse_out),
                           *ctx.saved_tensors, *ctx.constants)
    return *grads, *[None] * 6


def _sparse_setup(ctx, inputs, output):
    query, key, value, lut, lut_count, *constants = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, out, lse, lut, lut_count)
    ctx.constants = constants


def _sparse_backward(ctx, dout, _):
    if dout is None:
        return (None,) * 11
    grads = _call_backward(torch.ops.vsa.block_sparse_attention_backward.default, _last_axis_contiguous(dout),
                           *ctx.saved_tensors, *ctx.constants)
    return *grads, *[None] * 8


def _tiling_setup(ctx, inputs, output):
    _, *ctx.constants = inputs


def _is_differentiated(grad):
    """Whether a derivative of this gradient may be asked."""
    return torch.is_grad_enabled() and grad.requires_grad


def _tile_backward(ctx, dtiled):
    return call("untile", _is_differentiated(dtiled), _last_axis_contiguous(dtiled), *ctx.constants), None, None, None


def _untile_backward(ctx, dx):
    return call("tile", _is_differentiated(dx), _last_axis_contiguous(dx), *ctx.constants), None, None, None


_AUTOGRAD = {"video_sparse_attention": (_attention_setup, _attention_backward),
             "coarse_select": (_coarse_setup, _coarse_backward),
             "block_sparse_attention": (_sparse_setup, _sparse_backward),
             "tile": (_tiling_setup, _tile_backward),
             "untile": (_tiling_setup, _untile_backward)}

for _name, (_setup, _backward) in _AUTOGRAD.items():
    torch.library.register_autograd(f"vsa::{_name}", _backward, setup_context=_setup)


# --- the fast path -------------------------------------------------------------------------------
#
# register_autograd makes a kernel in Python: a call goes from Python into the dispatcher, from there to Python and
# back into the dispatcher, which takes 30 us without a gradient and 60 us with one. A call that is not traced takes
# the same steps without this detour.


def below_autograd(operator, arguments):
    """The operator, for arguments of which no gradient is asked."""
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


def _function(name, setup, backward):
    """The operator and its gradient as a torch.autograd.Function."""
    operator = getattr(torch.ops.vsa, name).default

    def forward(ctx, *inputs):
        output = below_autograd(operator, inputs)
        setup(ctx, inputs, output)
        return output

    return type(name, (torch.autograd.Function,),
                {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def _transformed(name, setup, backward):
    """The same as torch.func's transforms take it. Outside of them it would cost every call 30 us more."""
    operator = getattr(torch.ops.vsa, name).default
    return type(name, (torch.autograd.Function,),
                {"forward": staticmethod(lambda *inputs: below_autograd(operator, inputs)),
                 "setup_context": staticmethod(setup), "backward": staticmethod(backward), "generate_vmap_rule": True})


_FUNCTIONS = {name: _function(name, *how) for name, how in _AUTOGRAD.items()}
_TRANSFORMED = {name: _transformed(name, *how) for name, how in _AUTOGRAD.items()}


def call(name, needs_grad, *arguments):
    """The operator of that name. needs_grad: whether a gradient may be asked of its result."""
    transforms = torch._C._are_functorch_transforms_active()
    if transforms and needs_grad and not torch.compiler.is_compiling():
        return _TRANSFORMED[name].apply(*arguments)
    if transforms or torch.compiler.is_compiling():
        return getattr(torch.ops.vsa, name).default(*arguments)
    if needs_grad:
        return _FUNCTIONS[name].apply(*arguments)
    return below_autograd(getattr(torch.ops.vsa, name).default, arguments)


def _call_backward(operator, *arguments):
    """The backward operator. With create_graph its result knows that it has no derivative."""
    if torch._C._are_functorch_transforms_active() and not torch.compiler.is_compiling():
        return _TRANSFORMED[operator._opname].apply(*arguments)
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return operator(*arguments)
    return below_autograd(operator, arguments)


# --- what is not supported -----------------------------------------------------------------------


def _no_second_derivative(name):
    def backward(ctx, *grads):
        raise NotImplementedError(f"[{name}] expected no second derivative, got create_graph=True: "
                                  "gradients of gradients are not implemented")
    return backward


for _name in BACKWARD:
    torch.library.register_autograd(f"vsa::{_name}", _no_second_derivative(_name))
    _TRANSFORMED[_name] = _transformed(_name, lambda ctx, inputs, output: None, _no_second_derivative(_name))


def _no_gradient(ctx, *grads):
    raise NotImplementedError("[inference] requires_grad: expected False, got True; use video_sparse_attention")


torch.library.register_autograd("vsa::inference", _no_gradient)


# The operators that change their first argument have no derivative, and PyTorch takes no autograd formula for such
# ones. This kernel refuses a gradient and, as in-place operators do, counts up the version of what it changes.

_NAMES = {name: [argument.name for argument in getattr(torch.ops.vsa, name).default._schema.arguments]
          for name in IN_PLACE}


def _without_gradient(name):
    operator, names = getattr(torch.ops.vsa, name).default, _NAMES[name]

    def kernel(*arguments):
        if torch.is_grad_enabled():
            for argument, value in zip(names, arguments):
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    raise NotImplementedError(f"[{name}] {argument}: expected requires_grad=False or torch.no_grad(), "
                                              "got requires_grad=True; the operator has no gradient")
        result = below_autograd(operator, arguments)
        if name != "residual_norm" or (len(arguments) > 1 and arguments[1] is not None):  # without y, x is only read
            torch.autograd.graph.increment_version(arguments[0])
        return result
    return kernel


_AUTOGRAD_OF_IN_PLACE = torch.library.Library("vsa", "IMPL")
for _name in IN_PLACE:
    _AUTOGRAD_OF_IN_PLACE.impl(_name, _without_gradient(_name), "Autograd")
