"""The umT5 encoder in plain PyTorch, with the parameter names of transformers.

Differs from T5 in that every layer has its own table of relative position biases.
"""
from __future__ import annotations

import dataclasses
import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class UMT5Config:
    """The fields of transformers' config.json that vary."""

    vocab_size: int = 512
    d_model: int = 128
    d_kv: int = 32
    num_heads: int = 4
    d_ff: int = 256
    num_layers: int = 2
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6


@functools.lru_cache(maxsize=16)
def position_buckets(
    length: int, num_buckets: int, max_distance: int, device: torch.device | str = "cpu"
) -> Tensor:
    """Bucket [query, key] of each relative position: half for keys behind, half for keys ahead;
    of each half the first half is exact and the rest logarithmic."""
    half = num_buckets // 2
    exact = half // 2
    position = torch.arange(length)
    relative = position[None, :] - position[:, None]
    distance = relative.abs()
    # fp32, as the published encoder: the buckets' edges depend on the rounding.
    log_share = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (log_share * (half - exact)).long()).clamp(max=half - 1)
    return (torch.where(distance < exact, distance, far) + half * (relative > 0)).to(device)


class RmsNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


class SelfAttention(nn.Module):
    def __init__(self, config: UMT5Config):
        super().__init__()
        self.config, inner = config, config.num_heads * config.d_kv
        self.q, self.k, self.v = (nn.Linear(config.d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, config.d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(
            config.relative_attention_num_buckets, config.num_heads
        )

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        c = self.config
        q, k, v = (
            linear(x).unflatten(-1, (c.num_heads, c.d_kv)).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        buckets = position_buckets(
            x.shape[1], c.relative_attention_num_buckets, c.relative_attention_max_distance, x.device
        )
        bias = self.relative_attention_bias(buckets).permute(2, 0, 1)
        bias = bias.masked_fill(~valid[:, None, None], torch.finfo(x.dtype).min)
        # No 1 / sqrt(d): umT5 has it in the initialisation of q.
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        return self.o(attended.transpose(1, 2).flatten(2))


class DenseReluDense(nn.Module):
    def __init__(self, config: UMT5Config):
        super().__init__()
        self.wi_0, self.wi_1 = (
            nn.Linear(config.d_model, config.d_ff, bias=False) for _ in range(2)
        )
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.wo(F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x))


def _sublayer(name: str, module: nn.Module, config: UMT5Config) -> nn.Module:
    layer = nn.Module()
    layer.add_module(name, module)
    layer.layer_norm = RmsNorm(config.d_model, config.layer_norm_epsilon)
    return layer


class _Block(nn.Module):
    def __init__(self, config: UMT5Config):
        super().__init__()
        self.layer = nn.ModuleList(
            [
                _sublayer("SelfAttention", SelfAttention(config), config),
                _sublayer("DenseReluDense", DenseReluDense(config), config),
            ]
        )

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        x = x + self.layer[0].SelfAttention(self.layer[0].layer_norm(x), valid)
        return x + self.layer[1].DenseReluDense(self.layer[1].layer_norm(x))


class UMT5Encoder(nn.Module):
    def __init__(self, config: UMT5Config):
        super().__init__()
        self.config = config
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = nn.Module()
        self.encoder.block = nn.ModuleList(_Block(config) for _ in range(config.num_layers))
        self.encoder.final_layer_norm = RmsNorm(config.d_model, config.layer_norm_epsilon)

    def forward(self, ids: Tensor) -> Tensor:
        """[B, L, d_model] of ids [B, L]; the rows of padding (id 0) are zeros, not attended here
        but attended by the video transformer."""
        valid = ids != 0
        x = self.shared(ids)
        for block in self.encoder.block:
            x = block(x, valid)
        return self.encoder.final_layer_norm(x) * valid[..., None]


def initialise(model: UMT5Encoder) -> None:
    """T5's start for training; q carries the 1 / sqrt(d_kv) that attention leaves out."""
    c = model.config
    inner = c.num_heads * c.d_kv
    std = {"q": (c.d_model * c.d_kv) ** -0.5, "k": c.d_model**-0.5, "v": c.d_model**-0.5}
    std |= {"o": inner**-0.5, "wi_0": c.d_model**-0.5, "wi_1": c.d_model**-0.5, "wo": c.d_ff**-0.5}
    std |= {"relative_attention_bias": c.d_model**-0.5, "shared": 1.0}
    for name, module in model.named_modules():
        leaf = name.rsplit(".", 1)[-1]
        if leaf in std:
            nn.init.normal_(module.weight, std=std[leaf])
