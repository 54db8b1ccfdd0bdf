"""A tiny random Wan transformer, its inputs and gates for it."""

import torch
from diffusers import WanTransformer3DModel

GRID = (3, 5, 6)  # after the patch (1, 2, 2): 1 x 2 x 2 tiles, all partial but one
LAYERS = 3


def transformer():
    torch.manual_seed(7)
    return WanTransformer3DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4,
                                 text_dim=24, freq_dim=16, ffn_dim=48, num_layers=LAYERS, rope_max_seq_len=32,
                                 patch_size=(1, 2, 2)).eval()


def inputs(batch=1, timestep=500, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    frames, rows, columns = GRID
    return dict(
        hidden_states=torch.randn(batch, 4, frames, 2 * rows, 2 * columns, generator=generator).to(dtype),
        timestep=torch.full((batch,), timestep),
        encoder_hidden_states=torch.randn(batch, 8, 24, generator=generator).to(dtype), return_dict=False)


@torch.no_grad()
def run(model, **change):
    return model(**inputs(**change))[0]


def gate_weights(prefix=""):
    generator = torch.Generator().manual_seed(5)
    return {f"blocks.{n}.{prefix}to_gate_compress.{part}": torch.randn(*shape, generator=generator) / 8
            for n in range(LAYERS) for part, shape in (("weight", (32, 32)), ("bias", (32,)))}
