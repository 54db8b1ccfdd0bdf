"""Floating-point operations of a training step, counted by the usual convention.

A product of an m x k and a k x n matrix is 2 m k n operations, backward is twice forward, and what is
computed again (activation checkpointing, scores in the backward of attention) does not count. Softmax, norms
and other element-wise work do not count either.
"""
from __future__ import annotations

import dataclasses
import math

import torch
from torch import nn
from vsa_torch import num_tiles, topk_from_sparsity

from training.dit.settings import SIZES

FORWARD_AND_BACKWARD = 3


@dataclasses.dataclass(frozen=True)
class Flops:
    """Of one video, forward."""

    attention: float  # self-attention between tokens, and VSA's between tiles
    gates: float  # the projections to_gate_compress, which dense attention has not
    rest: float  # all other matrix products of the transformer

    @property
    def total(self) -> float:
        return self.attention + self.gates + self.rest


def attention_flops(settings, heads: int, head_dim: int, layers: int, sparsity: float | None) -> float:
    """Scores and their products with the values; sparsity None is dense attention.

    A query tile is taken to meet topk tiles of mean length: exact where no tile is partial.
    """
    seq_len = settings.seq_len
    if sparsity is None:
        return 4.0 * seq_len * seq_len * heads * head_dim * layers
    tiles = num_tiles(settings.grid, settings.tile_shape)
    kept = topk_from_sparsity(sparsity, tiles) / tiles
    return 4.0 * (kept * seq_len * seq_len + tiles * tiles) * heads * head_dim * layers


@torch.no_grad()
def linear_flops(transformer: nn.Module, *inputs) -> tuple[float, float]:
    """(gates, others): of every linear layer and of the patches' convolution in transformer(*inputs), and of the
    attention to the text."""
    counted = {True: 0.0, False: 0.0}

    def count(is_gate):
        def hook(module, args, output):
            counted[is_gate] += 2.0 * module.weight.numel() / module.weight.shape[0] * output.numel()
        return hook

    def count_text(module, args, kwargs, output):
        text = kwargs.get("encoder_hidden_states", args[1] if len(args) > 1 else None)
        counted[False] += 4.0 * output.numel() * text.shape[1]

    hooks = [module.register_forward_hook(count(name.endswith("to_gate_compress")))
             for name, module in transformer.named_modules() if isinstance(module, (nn.Linear, nn.Conv3d))]
    hooks += [block.attn2.register_forward_hook(count_text, with_kwargs=True) for block in transformer.blocks]
    transformer(*inputs)
    for hook in hooks:
        hook.remove()
    return counted[True], counted[False]


def per_level(settings, networks) -> dict[float, Flops]:
    """The operations at every sparsity that the schedule goes through."""
    size, device = SIZES[settings.size], next(networks.parameters()).device
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        gates, rest = linear_flops(
            networks.transformer, torch.zeros(1, 3, settings.frames, settings.height, settings.width, device=device),
            torch.zeros(1, device=device), torch.zeros(1, networks.text_length, size.text_dim, device=device))
    levels = {settings.sparsity_at(step) for step in range(settings.steps)}
    return {level: Flops(attention_flops(settings, size.heads, size.head_dim, size.layers,
                                         None if settings.attention == "dense" else level), gates, rest)
            for level in levels}


def so_far(settings, levels: dict[float, Flops], steps: int, part: str) -> float:
    """Training FLOPs of the first steps: part is a field of Flops or "total"."""
    counts: dict[float, int] = {}
    for step in range(steps):
        level = settings.sparsity_at(step)
        counts[level] = counts.get(level, 0) + 1
    return math.fsum(FORWARD_AND_BACKWARD * settings.batch * n * getattr(levels[level], part)
                     for level, n in counts.items())
