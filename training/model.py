"""The Wan video transformer in plain PyTorch, with the parameter names of diffusers.

A state_dict of `WanTransformer` is a checkpoint of diffusers' WanTransformer3DModel, plus one
linear `to_gate_compress` a block: the gate of the coarse branch of sparse attention.
Tokens stay in tile order from the patch embedding to the output projection.
"""
from __future__ import annotations

import dataclasses
import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.attention import TilePlan, attention, tile_plan


@dataclasses.dataclass(frozen=True)
class WanConfig:
    """The fields of diffusers' transformer/config.json that vary; the tile goes in metadata."""

    patch_size: tuple = (2, 4, 4)
    num_attention_heads: int = 4
    attention_head_dim: int = 64
    in_channels: int = 3
    out_channels: int = 3
    text_dim: int = 128
    freq_dim: int = 256
    ffn_dim: int = 640
    num_layers: int = 7
    eps: float = 1e-6
    rope_max_seq_len: int = 64
    tile_shape: tuple = (4, 4, 4)

    @property
    def dim(self) -> int:
        return self.num_attention_heads * self.attention_head_dim


@functools.lru_cache(maxsize=16)
def rope_table(grid: tuple, head_dim: int, device: torch.device) -> Tensor:
    """Angles' (cos, sin), [2, S, head_dim / 2] fp32 in raster order; each axis has its share."""
    per_axis = 2 * (head_dim // 6)
    shares = (head_dim - 2 * per_axis, per_axis, per_axis)
    angles = []
    for axis, (length, share) in enumerate(zip(grid, shares)):
        rate = 10000.0 ** (-torch.arange(0, share, 2, dtype=torch.float64) / share)
        angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
        shape = [1, 1, 1, share // 2]
        shape[axis] = length
        angles.append(angle.reshape(shape).expand(*grid, share // 2))
    angle = torch.cat(angles, -1).flatten(0, 2)
    return torch.stack([angle.cos(), angle.sin()]).float().to(device)


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """RoPE on x [B, S, H, D] by pairs (2j, 2j + 1), in fp32, back in the dtype of x."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = rope[:, :, None]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


class Mlp(nn.Module):
    """linear_1, an activation, linear_2."""

    def __init__(self, dim_in: int, dim: int, activation):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(dim_in, dim), nn.Linear(dim, dim)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(self.activation(self.linear_1(x)))


class ConditionEmbedder(nn.Module):
    """Embeds the timestep and the text."""

    def __init__(self, config: WanConfig):
        super().__init__()
        self.freq_dim = config.freq_dim
        self.time_embedder = Mlp(config.freq_dim, config.dim, F.silu)
        self.time_proj = nn.Linear(config.dim, 6 * config.dim)
        gelu = lambda x: F.gelu(x, approximate="tanh")
        self.text_embedder = Mlp(config.text_dim, config.dim, gelu)

    def forward(self, timestep: Tensor, text: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """temb [B, d], its projection [B, 6, d] and the context [B, L, d]."""
        half = self.freq_dim // 2
        exponent = torch.arange(half, dtype=torch.float32, device=timestep.device) / half
        angle = timestep.float()[:, None] * torch.exp(-math.log(10000.0) * exponent)
        temb = self.time_embedder(torch.cat([angle.cos(), angle.sin()], -1))
        return temb, self.time_proj(F.silu(temb)).unflatten(1, (6, -1)), self.text_embedder(text)


class AttentionWeights(nn.Module):
    """The projections and q, k norms of one attention; what runs them is in Block."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(dim, dim)])
        self.norm_q, self.norm_k = (nn.RMSNorm(dim, eps=eps) for _ in range(2))


class FeedForward(nn.Module):
    def __init__(self, dim: int, ffn_dim: int):
        super().__init__()
        first = nn.Module()
        first.proj = nn.Linear(dim, ffn_dim)
        # net.1 is dropout in diffusers and has no parameters.
        self.net = nn.ModuleList([first, nn.Identity(), nn.Linear(ffn_dim, dim)])

    def forward(self, x: Tensor) -> Tensor:
        return self.net[2](F.gelu(self.net[0].proj(x), approximate="tanh"))


class Block(nn.Module):
    """Self-attention, cross-attention on the text, feed-forward; adaLN around first and last."""

    def __init__(self, config: WanConfig):
        super().__init__()
        self.heads, self.eps = config.num_attention_heads, config.eps
        self.attn1 = AttentionWeights(config.dim, config.eps)
        self.attn2 = AttentionWeights(config.dim, config.eps)
        self.norm2 = nn.LayerNorm(config.dim, config.eps)
        self.ffn = FeedForward(config.dim, config.ffn_dim)
        self.to_gate_compress = nn.Linear(config.dim, config.dim)
        self.scale_shift_table = nn.Parameter(torch.randn(1, 6, config.dim) / config.dim**0.5)
        self.attend = attention  # or another function that computes the same

    def modulated(self, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        x = x.float()
        return F.layer_norm(x, x.shape[-1:], eps=self.eps) * (1 + scale) + shift

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))

    def project(self, x: Tensor, table: Tensor, rope: Tensor) -> tuple[Tensor, ...]:
        """q, k, v and gate [B, H, S, D]: normed, q and k rotated."""
        shift, scale = table[:, 0:1], table[:, 1:2]
        a = self.attn1
        linears = (a.to_q, a.to_k, a.to_v, self.to_gate_compress)
        # One product for all four: they read the same input.
        weight = torch.cat([linear.weight for linear in linears])
        bias = torch.cat([linear.bias for linear in linears])
        q, k, v, gate = F.linear(self.modulated(x, shift, scale), weight, bias).chunk(4, -1)
        q, k = (norm(t.float()).to(t.dtype) for norm, t in ((a.norm_q, q), (a.norm_k, k)))
        q, k, v, gate = (self.split_heads(t) for t in (q, k, v, gate))
        q, k = rotate(q, rope), rotate(k, rope)
        return tuple(t.transpose(1, 2).contiguous() for t in (q, k, v, gate))

    def update(self, x: Tensor, attended: Tensor, table: Tensor, context: Tensor) -> Tensor:
        """The rest of the block after self-attention."""
        _, _, gate, c_shift, c_scale, c_gate = table[:, :, None].unbind(1)
        x = x + gate * self.attn1.to_out[0](attended.transpose(1, 2).flatten(2)).float()
        a = self.attn2
        q, k = a.to_q(self.norm2(x)), a.to_k(context)
        q, k = (norm(t.float()).to(t.dtype) for norm, t in ((a.norm_q, q), (a.norm_k, k)))
        heads = (self.split_heads(t).transpose(1, 2) for t in (q, k, a.to_v(context)))
        crossed = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + a.to_out[0](crossed).float()
        return x + c_gate * self.ffn(self.modulated(x, c_shift, c_scale)).float()

    def forward(
        self, x: Tensor, context: Tensor, timestep_proj: Tensor, rope: Tensor, plan: TilePlan, topk: int
    ) -> Tensor:
        table = self.scale_shift_table + timestep_proj.float()
        attended = self.attend(*self.project(x, table, rope), plan, topk)
        return self.update(x, attended, table, context)


class WanTransformer(nn.Module):
    def __init__(self, config: WanConfig):
        super().__init__()
        self.config = config
        self.patch_embedding = nn.Conv3d(
            config.in_channels, config.dim, config.patch_size, config.patch_size
        )
        self.condition_embedder = ConditionEmbedder(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, config.dim) / config.dim**0.5)
        self.proj_out = nn.Linear(config.dim, math.prod(config.patch_size) * config.out_channels)

    def set_attention(self, attend) -> None:
        """Another function in the place of training.attention.attention."""
        for block in self.blocks:
            block.attend = attend

    def compile_blocks(self) -> None:
        """Compiles the parts of a block and what is around the blocks, not the model: all blocks share one
        compilation, and another topk compiles the attention alone, or nothing where that is an operator of its own."""
        attend = torch.compile(attention, dynamic=False)
        for block in self.blocks:
            if block.attend is attention:
                block.attend = attend
            block.project = torch.compile(block.project, dynamic=False)
            block.update = torch.compile(block.update, dynamic=False)
        self.embed = torch.compile(self.embed, dynamic=False)
        self.head = torch.compile(self.head, dynamic=False)

    def grid_of(self, latent: Tensor) -> tuple:
        return tuple(n // p for n, p in zip(latent.shape[2:], self.config.patch_size))

    def embed(self, latent: Tensor, order: Tensor) -> Tensor:
        """Tokens [B, S, d] in tile order, fp32. A convolution whose step is its kernel is a product of patches."""
        pt, ph, pw = self.config.patch_size
        f, h, w = self.grid_of(latent)
        x = latent[:, :, : f * pt, : h * ph, : w * pw]
        x = x.unflatten(4, (w, pw)).unflatten(3, (h, ph)).unflatten(2, (f, pt))
        # [B, C, f, pt, h, ph, w, pw] -> [B, f, h, w, C, pt, ph, pw]
        patches = x.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4).flatten(1, 3)[:, order]
        embedding = self.patch_embedding
        return F.linear(patches, embedding.weight.flatten(1), embedding.bias).float()

    def head(self, x: Tensor, temb: Tensor, inverse: Tensor, grid: tuple) -> Tensor:
        """The velocity [B, C, F, H, W] of tokens in tile order."""
        shift, scale = (self.scale_shift_table + temb.float()[:, None]).chunk(2, 1)
        y = self.proj_out(F.layer_norm(x, x.shape[-1:], eps=self.config.eps) * (1 + scale) + shift)
        tiles = [n // edge for n, edge in zip(grid, self.config.tile_shape)]
        if math.prod(tiles) * math.prod(self.config.tile_shape) == math.prod(grid):
            # The same order as `inverse` as a view, whose backward adds up nothing.
            y = y.unflatten(1, (*tiles, *self.config.tile_shape)).permute(0, 1, 4, 2, 5, 3, 6, 7).flatten(1, 6)
        else:
            y = y[:, inverse]
        y = y.unflatten(1, grid).unflatten(-1, (*self.config.patch_size, -1))
        # [B, f, h, w, pt, ph, pw, C] -> [B, C, f, pt, h, ph, w, pw]
        return y.permute(0, 7, 1, 4, 2, 5, 3, 6).flatten(6, 7).flatten(4, 5).flatten(2, 3)

    def forward(self, latent: Tensor, timestep: Tensor, text: Tensor, topk: int | None = None) -> Tensor:
        """The velocity [B, C_out, F, H, W] of a latent [B, C, F, H, W].

        timestep [B] is 1000 * sigma; text [B, L, text_dim] has zeros past the valid rows, and
        those rows are attended. topk = None keeps all tiles.
        """
        config = self.config
        grid = self.grid_of(latent)
        plan = tile_plan(grid, config.tile_shape, latent.device)
        topk = plan.num_tiles if topk is None else topk
        rope = rope_table(grid, config.attention_head_dim, latent.device)[:, plan.order]
        temb, timestep_proj, context = self.condition_embedder(timestep, text)
        x = self.embed(latent, plan.order)
        for block in self.blocks:
            x = block(x, context, timestep_proj, rope, plan, topk)
        return self.head(x, temb, plan.inverse, grid)


def initialise(model: nn.Module) -> None:
    """Wan's start for training: Xavier linears, small embedders, the output and the gates zero. For this class and
    for that of diffusers, whose modules have the same names."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    nn.init.xavier_uniform_(model.patch_embedding.weight.flatten(1))
    nn.init.zeros_(model.patch_embedding.bias)
    for mlp in (model.condition_embedder.time_embedder, model.condition_embedder.text_embedder):
        nn.init.normal_(mlp.linear_1.weight, std=0.02)
        nn.init.normal_(mlp.linear_2.weight, std=0.02)
    nn.init.zeros_(model.proj_out.weight)
    for name, module in model.named_modules():
        if name.endswith("to_gate_compress"):
            nn.init.zeros_(module.weight)
