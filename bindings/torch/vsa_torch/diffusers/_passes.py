"""The passes of torch.ops.vsa around attention, on the tensors of a Wan block, and when they may replace what the
modules of diffusers compute one operation after the other."""

import functools

import torch
from diffusers.models.normalization import FP32LayerNorm
from torch.autograd import forward_ad
from torch.nn.modules import module as _module

from vsa_torch._registration import below_autograd

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_DTYPES = {"cuda": (torch.bfloat16, torch.float16), "cpu": (torch.bfloat16, torch.float16, torch.float32)}


def serve_call(x):
    """Whether a call of the transformer, whose input is x, may use the passes: an eager one without gradients, in which
    nothing looks at the single operations."""
    return not (torch.compiler.is_compiling() or torch.is_grad_enabled() or torch.jit.is_tracing()
                or forward_ad._current_level >= 0 or torch._C._len_torch_dispatch_stack()
                or torch._C._are_functorch_transforms_active() or torch.is_autocast_enabled(x.device.type)
                or _module._global_forward_hooks or _module._global_forward_pre_hooks)


def serve(heads, *tensors):
    """Whether there are passes for these tensors [B, S, dim], all plain and alike."""
    x = tensors[0]
    return (all(type(t) is torch.Tensor and t.dtype == x.dtype and t.device == x.device and t.stride(-1) == 1
                for t in tensors)
            and _implemented(x.device, x.dtype, heads, x.shape[-1] // heads))


@functools.lru_cache(maxsize=64)
def _implemented(device, dtype, heads, head_dim):
    """Whether this build has the passes for this device, found by a call with one token."""
    if dtype not in _DTYPES.get(device.type, ()):
        return False
    x = torch.zeros(1, 1, heads, head_dim, dtype=dtype, device=device)
    angle = torch.zeros(1, 1, 1, head_dim // 2, device=device)
    try:
        residual_norm(x, x.clone(), None, None, None, 1e-6)
        _norm_rope_pool(x, (1, 1, 1), (1, 1, 1), 1e-6, None, (angle, angle))
    except NotImplementedError:
        return False
    return True


def untouched(module, kind):
    """Whether a module is of that class itself, and nothing replaces its forward or looks at its calls."""
    return (type(module) is kind and "forward" not in module.__dict__ and not module._forward_hooks
            and not module._forward_pre_hooks)


def is_layer_norm(norm, x, affine):
    """Whether a module is the layer norm over the last axis of x, with or without weights."""
    return _is_norm(norm, FP32LayerNorm, x) and all(
        plain_at(p, x) if affine else p is None for p in (norm.weight, norm.bias))


def is_rms_norm(norm, x):
    """Whether a module is the RMSNorm over the last axis of x, with a weight."""
    return _is_norm(norm, torch.nn.RMSNorm, x) and plain_at(norm.weight, x)


def _is_norm(norm, kind, x):
    return untouched(norm, kind) and tuple(norm.normalized_shape) == (x.shape[-1],)


def plain_at(parameter, x):
    return type(parameter) in _PLAIN and parameter.device == x.device


def tables(cos, sin):
    """The rotary embedding of diffusers, which has every number twice, as norm_rope_pool takes it: [1, S, 1, D / 2]."""
    return cos[..., 0::2].float().contiguous(), sin[..., 1::2].float().contiguous()


def norm_rope_pool(x, linear, norm, heads, angles, facts):
    """(RMSNorm and rotary embedding of x [B, S, dim] as [B, S, H, D], the means of its tiles). x is changed in place if
    nothing else can have kept it, the output of that linear layer."""
    if not untouched(linear, torch.nn.Linear):
        x = x.clone()
    x = x.unflatten(2, (heads, -1))
    weight = norm.weight.float().view(1, 1, heads, -1)
    eps = torch.finfo(x.dtype).eps if norm.eps is None else norm.eps
    return x, _norm_rope_pool(x, facts.grid, facts.tile_shape, eps, weight, angles)


def _norm_rope_pool(x, grid, tile_shape, eps, weight, angles):
    return below_autograd(torch.ops.vsa.norm_rope_pool.default,
                          (x, grid, tile_shape, None, "all_heads", eps, weight, None, *angles, True))


def residual_norm(x, y, gate, scale, shift, eps, norm=True):
    """x += gate * y in place; returns the layer norm of x, * scale + shift, unless norm is False. All are [B, S or 1, H,
    D]; gate, scale and shift are float32."""
    return below_autograd(torch.ops.vsa.residual_norm.default, (x, y, gate, scale, shift, eps, norm))
