"""What backward is compared with: dense attention and FlexAttention, through PyTorch's autograd.

Each factory takes (case, sets, passes) and returns a contestant that runs backward alone, on a graph made before
the clock runs, or forward and backward; it raises ImportError where its package is absent.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

import gradients
import others
from contestant import Contestant, max_or_nan
from ours_backward import BACKWARD, BOTH


def _entrant(name, sets, attend, inputs, dout, to_raster, what, passes):
    """attend(i) -> out of inputs[i] = [q, k, v]; to_raster(i, gradient) -> [1, S, H, D]."""
    graphs, last = {}, [None] * len(sets)
    for leaves in inputs:
        for x in leaves:
            x.requires_grad_()

    def graph(i):
        with torch.enable_grad():
            return attend(i)

    def call_of(i):
        def backward():
            if i not in graphs:
                graphs[i] = graph(i)
            last[i] = torch.autograd.grad(graphs[i], inputs[i], dout[i], retain_graph=True)

        def both():
            last[i] = torch.autograd.grad(graph(i), inputs[i], dout[i])

        return both if passes == BOTH else backward

    def error(i):
        found = {key: to_raster(i, x) for key, x in zip(("dq", "dk", "dv"), last[i])}
        last[i] = None
        return max_or_nan(gradients.errors(sets[i], found, what))

    pairs = "dense" if what == "dense" else "sparse"
    return Contestant(name, [call_of(i) for i in range(len(sets))], error, pairs, sets, outputs=lambda i: [],
                      passes=passes)


def dense_cudnn(name, sets, passes):
    """PyTorch's scaled_dot_product_attention with nothing but the cuDNN backend allowed; on a CPU its math."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = SDPBackend.CUDNN_ATTENTION if sets[0].q.is_cuda else SDPBackend.MATH
    inputs = [[x.transpose(1, 2).contiguous() for x in (s.q, s.k, s.v)] for s in sets]

    def attend(i):
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(*inputs[i])

    dout = [s.dout.transpose(1, 2).contiguous() for s in sets]
    return _entrant(name, sets, attend, inputs, dout, lambda i, x: x.transpose(1, 2), "dense", passes)


def dense_flash3(name, sets, passes):
    from flash_attn_interface import flash_attn_func
    inputs = [[x.clone() for x in (s.q, s.k, s.v)] for s in sets]

    def attend(i):
        out = flash_attn_func(*inputs[i])
        return out[0] if isinstance(out, tuple) else out

    return _entrant(name, sets, attend, inputs, [s.dout for s in sets], lambda i, x: x, "dense", passes)


def flex(name, sets, passes):
    """FlexAttention, compiled, with a block mask from the same table."""
    attention = others.compiled_flex(sets[0].plan.info.tile_tokens)
    masks = [others.flex_mask(s) for s in sets]
    inputs = [[s.in_tile_order(x) for x in (s.q, s.k, s.v)] for s in sets]
    return _entrant(name, sets, lambda i: attention(*inputs[i], block_mask=masks[i]), inputs,
                    [s.in_tile_order(s.dout) for s in sets], lambda i, x: sets[i].in_raster_order(x), "fine", passes)


FACTORIES = {f"{name}_{suffix}": (lambda case, sets, make=make, name=f"{name}_{suffix}", passes=passes:
                                  make(name, sets, passes))
             for suffix, passes in (("backward", BACKWARD), ("training", BOTH))
             for name, make in (("dense_cudnn", dense_cudnn), ("dense_flash3", dense_flash3), ("flex_attention", flex))}
FACTORIES["gemm"] = others.gemm
