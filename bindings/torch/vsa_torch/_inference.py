"""The fast path of video_sparse_attention, for calls that need the output alone.

A GPU finishes a short video before Python has checked the next call. So the arguments other than tensors are checked
once and kept as the text that torch.ops.vsa.inference takes; libvsa checks the tensors in every call.
"""

import torch
from torch.autograd import forward_ad

from vsa_torch._registration import below_autograd

_SIX_INTS = (int,) * 6
_INT = frozenset((type(None), int))
_FLOAT = frozenset((type(None), float))
_GATE = _FLOAT | {torch.Tensor}


def serves(query, key, value, gate_coarse, gate_fine):
    """Whether these are plain tensors (no subclass) with values, outside of tracing, autocast and autograd."""
    if torch.compiler.is_compiling() or not (type(query) is type(key) is type(value) is torch.Tensor):
        return False
    if type(gate_coarse) not in _GATE or type(gate_fine) not in _GATE:
        return False
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad
                                    or getattr(gate_coarse, "requires_grad", False)
                                    or getattr(gate_fine, "requires_grad", False)):
        return False
    return (not query.is_meta and forward_ad._current_level < 0 and torch._C._len_torch_dispatch_stack() == 0
            and not torch._C._are_functorch_transforms_active()
            and not torch.is_autocast_enabled("cuda" if query.is_cuda else "cpu"))


def are_plain(grid, tile_shape, prefix, topk, sparsity, scale, coarse_rounding, order):
    """Whether these are Python's own numbers. Only their results may be cached: other types may be equal and mean
    something else (True and 1), or change their value (a tensor)."""
    return (type(grid) is type(tile_shape) is tuple and (*map(type, grid + tile_shape),) == _SIX_INTS
            and (prefix is None or (type(prefix) in (tuple, list) and {int}.issuperset(map(type, prefix))))
            and type(topk) in _INT and type(sparsity) in _FLOAT and type(scale) in _FLOAT
            and type(coarse_rounding) is type(order) is str)


def call(query, key, value, gate_coarse, gate_fine, options, q_pooled=None, k_pooled=None):
    """The output. `options` holds the gates that are no tensors; q_pooled and k_pooled are means of norm_rope_pool."""
    return below_autograd(torch.ops.vsa.inference.default, (
        query, key, value, gate_coarse if type(gate_coarse) is torch.Tensor else None,
        gate_fine if type(gate_fine) is torch.Tensor else None, options, q_pooled, k_pooled))
