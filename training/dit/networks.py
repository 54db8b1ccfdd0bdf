"""The transformer with its attention, and the text encoder that is trained with it."""
from __future__ import annotations

import dataclasses

import torch
from diffusers import WanTransformer3DModel
from torch import Tensor, nn
from vsa_torch.diffusers import enable_vsa

from training import model, text_encoder
from training.dit.settings import SIZES, Settings
from training.model import WanConfig
from training.text_encoder import UMT5Config, UMT5Encoder
from training.tokenizer import MAX_LENGTH, Tokenizer


def config_of(settings: Settings) -> WanConfig:
    size = SIZES[settings.size]
    return WanConfig(
        patch_size=settings.patch, num_attention_heads=size.heads, attention_head_dim=size.head_dim,
        text_dim=size.text_dim, freq_dim=min(256, size.heads * size.head_dim), ffn_dim=size.ffn,
        num_layers=size.layers, rope_max_seq_len=max(64, *settings.grid), tile_shape=settings.tile_shape)


def text_config_of(settings: Settings, tokenizer: Tokenizer) -> UMT5Config:
    width = SIZES[settings.size].text_dim
    return UMT5Config(vocab_size=tokenizer.vocab_size, d_model=width, d_ff=2 * width)


class Networks(nn.Module):
    """Both arms draw the same weights from the same seed; VSA's gates begin at zero, so they draw none."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer):
        super().__init__()
        size = SIZES[settings.size]
        torch.manual_seed(settings.seed)
        config = dataclasses.asdict(config_of(settings))
        del config["tile_shape"]
        self.transformer = WanTransformer3DModel(**config)
        self.text_encoder = UMT5Encoder(text_config_of(settings, tokenizer))
        self.text_length = MAX_LENGTH
        # Under autocast the patches come out in bfloat16, and the sum over all layers would stay in it.
        self.transformer.patch_embedding.register_forward_hook(lambda module, args, output: output.float())
        model.initialise(self.transformer)
        text_encoder.initialise(self.text_encoder)
        self.sparsity = 0.0  # of the next call; dense attention has no use for it
        if settings.attention == "vsa":
            width = size.heads * size.head_dim
            gates = {f"blocks.{layer}.to_gate_compress.{part}": torch.zeros(shape) for layer in range(size.layers)
                     for part, shape in (("weight", (width, width)), ("bias", (width,)))}
            enable_vsa(self.transformer, gates=gates, tile_shape=settings.tile_shape,
                       schedule=lambda: self.sparsity)

    def compile_blocks(self, num_levels: int) -> None:
        """All blocks share a graph for every level of sparsity, with gradients and without."""
        torch._dynamo.reset()  # graphs of an earlier run would count towards the limit
        torch._dynamo.config.recompile_limit = max(8, 4 * num_levels)
        for block in self.transformer.blocks:
            block.compile()

    def forward(self, ids: Tensor, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The velocity, fp32 like noisy [B, 3, F, H, W], of captions ids [B, L] at noise levels sigma [B]."""
        text = self.text_encoder(ids)
        return self.transformer(noisy, 1000 * sigma, text, return_dict=False)[0].float()
