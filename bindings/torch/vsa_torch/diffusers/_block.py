"""The forward of a Wan block for inference: residual, gate, layer norm and modulation in one pass each.

It steps aside, for the forward that the block's class has, wherever it could compute something else or something else
could see the difference. Linear layers, attention and the feed-forward network are called as modules, so that whatever
was done to them holds. The input of the block stays as it is, because caches keep it.
"""

import functools

import torch
from diffusers.models.activations import GELU
from diffusers.models.attention import FeedForward
from diffusers.models.transformers.transformer_wan import WanAttention, WanTransformerBlock

from vsa_torch.diffusers import _passes

_FORWARD = WanTransformerBlock.forward


def install(block):
    """Gives a block this forward, unless something has replaced the forward of its class. What replaces it later, such as
    hooks of accelerate and diffusers, calls this one."""
    if type(block) is WanTransformerBlock and "forward" not in block.__dict__ and _is_known():
        block.forward = functools.partial(_forward, block)


def remove(block):
    """The inverse. A forward that something has wrapped stays, and steps aside without enable_vsa's rotary embedding."""
    if _installed(block) is not None:
        del block.forward


def check(block):
    """Makes the forward of a shallow copy, such as a replica of DataParallel, its own, and removes it if the one of the
    class was replaced."""
    forward = _installed(block)
    if forward is None:
        return
    if WanTransformerBlock.forward is not _FORWARD:
        del block.forward
    elif forward.args[0] is not block:
        block.forward = functools.partial(_forward, block)


def _installed(block):
    forward = block.__dict__.get("forward")
    return forward if getattr(forward, "func", None) is _forward else None


def _forward(block, hidden_states, encoder_hidden_states, temb, rotary_emb):
    if torch.compiler.is_compiling():  # cannot look the forward of the class up, see `check`
        return _FORWARD(block, hidden_states, encoder_hidden_states, temb, rotary_emb)
    if not _serves(block, hidden_states, temb, rotary_emb):
        return type(block).forward(block, hidden_states, encoder_hidden_states, temb, rotary_emb)
    return _fused(block, hidden_states, encoder_hidden_states, temb, rotary_emb)


def _serves(block, x, temb, rotary_emb):
    """Whether everything is as in the block of diffusers. A temb of 4 axes differs from token to token (Wan 2.2 5B)."""
    return (rotary_emb is not None and len(rotary_emb) == 4
            and rotary_emb[3] is not None and _passes.serve_call(x)
            and type(block) is WanTransformerBlock and WanTransformerBlock.forward is _FORWARD
            and type(block.attn1) is WanAttention and type(temb) is torch.Tensor
            and x.ndim == temb.ndim == 3 and x.is_contiguous()
            and _passes.serve(block.attn1.heads, x)
            and _passes.is_layer_norm(block.norm1, x, affine=False)
            and _passes.is_layer_norm(block.norm2, x, affine=True)
            and _passes.is_layer_norm(block.norm3, x, affine=False))


def _fused(block, x, encoder_hidden_states, temb, rotary_emb):
    batch, heads = x.shape[0], block.attn1.heads
    table = (block.scale_shift_table + temb.float()).expand(batch, -1, -1).unflatten(2, (heads, -1))
    shift, scale, gate, c_shift, c_scale, c_gate = table.chunk(6, dim=1)  # [B, 1, H, D] each
    weight, bias = (p.float().view(1, 1, heads, -1).expand(batch, -1, -1, -1)
                    for p in (block.norm2.weight, block.norm2.bias))

    normed = _passes.residual_norm(x.unflatten(2, (heads, -1)), None, None, 1 + scale, shift, block.norm1.eps).flatten(2)
    y = block.attn1(normed, None, None, rotary_emb)
    x = x.clone(memory_format=torch.contiguous_format)
    x, normed = _add(x, y, gate, heads, (weight, bias, block.norm2.eps))
    y = block.attn2(normed, encoder_hidden_states, None, None)
    x, normed = _add(x, y, None, heads, (1 + c_scale, c_shift, block.norm3.eps))
    y = _feed_forward(block.ffn, normed)
    return _add(x, y, c_gate, heads)[0]


def _add(x, y, gate, heads, norm=None):
    """(x + gate * y, its layer norm): in x, where there is a pass for it, else as diffusers computes it. norm: (scale,
    shift, eps), or None without one."""
    split, (scale, shift, eps) = (heads, -1), norm or (None, None, 0.0)
    if _passes.serve(heads, x, y) and y.is_contiguous():
        out = _passes.residual_norm(x.unflatten(2, split), y.unflatten(2, split), gate, scale, shift, eps, norm is not None)
        return x, out.flatten(2) if norm else None
    # A module that computes in another dtype than the model.
    x = x + y if gate is None else (x.float() + y.float() * gate.flatten(2)).type_as(x)
    if norm is None:
        return x, None
    normed = torch.nn.functional.layer_norm(x.float(), x.shape[-1:], eps=eps)
    return x, (normed * scale.flatten(2) + shift.flatten(2)).type_as(x)


def _feed_forward(ffn, x):
    """The feed-forward network; on a GPU with GELU at the end of the first product, which saves a pass over its output."""
    if not _has_epilogue(ffn, x):
        return ffn(x)
    projection = ffn.net[0].proj
    hidden = torch._addmm_activation(projection.bias, x.flatten(0, 1), projection.weight.t(), use_gelu=True)
    hidden = hidden.unflatten(0, x.shape[:2])
    for module in ffn.net[1:]:
        hidden = module(hidden)
    return hidden


def _has_epilogue(ffn, x):
    """On a CPU torch._addmm_activation computes GELU by erf; Wan has the approximation by tanh."""
    if not x.is_cuda or not _passes.untouched(ffn, FeedForward) or not _passes.untouched(ffn.net[0], GELU):
        return False
    projection = ffn.net[0].proj
    return (ffn.net[0].approximate == "tanh" and _passes.untouched(projection, torch.nn.Linear)
            and hasattr(torch, "_addmm_activation")
            and all(_passes.plain_at(p, x) and p.dtype == x.dtype for p in (projection.weight, projection.bias)))


@functools.lru_cache(maxsize=1)
def _is_known():
    """Whether the block of the installed diffusers computes what this file does, found with a small block."""
    dim, heads, text = 32, 2, 3
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.inference_mode(False), torch.no_grad():
        torch.manual_seed(0)
        try:
            block = WanTransformerBlock(dim, 2 * dim, heads, cross_attn_norm=True).float().eval()
            inputs = [torch.randn(2, 4, dim), torch.randn(2, text, dim), torch.randn(2, 6, dim), None]
            want, got = _FORWARD(block, *inputs), _fused(block, *inputs)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            return False
    return got.shape == want.shape and bool((got - want).norm() <= 1e-4 * want.norm())
