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


def same_output(got, want):
    """Whether outputs are the same but for rounding. Weights that were loaded lie at other addresses (in the mapping of
    a file at any), and matrix products of some processors add up in another order there: bits need not repeat. Dropped
    or exchanged gates change this model's output by more than 1e-2."""
    error = (got.double() - want.double()).norm() / want.double().norm()
    return got.dtype == want.dtype and error.item() <= max(1e-5, 2 * torch.finfo(want.dtype).eps)


def gate_weights(prefix=""):
    generator = torch.Generator().manual_seed(5)
    return {f"blocks.{n}.{prefix}to_gate_compress.{part}": torch.randn(*shape, generator=generator) / 8
            for n in range(LAYERS) for part, shape in (("weight", (32, 32)), ("bias", (32,)))}


def pipeline(model, model_2=None, kind="WanPipeline", scheduler=None, **config):
    """A pipeline of diffusers around tiny transformers, without a text encoder and a VAE."""
    import diffusers

    scheduler = scheduler or diffusers.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                                               num_train_timesteps=1000, flow_shift=3.0)
    pipe = getattr(diffusers, kind)(tokenizer=None, text_encoder=None, vae=None, scheduler=scheduler,
                                    transformer=model, transformer_2=model_2, **config)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def generate(pipe, steps=4, guidance=5.0, **options):
    """Latents of the tiny video; twice as many calls of the transformer as steps, unless guidance is 1."""
    embeds = torch.randn(1, 8, 24, generator=torch.Generator().manual_seed(4))
    frames, rows, columns = GRID
    return pipe(prompt_embeds=embeds, negative_prompt_embeds=-embeds, num_inference_steps=steps,
                guidance_scale=guidance, num_frames=4 * (frames - 1) + 1, height=16 * rows, width=16 * columns,
                output_type="latent", generator=torch.Generator().manual_seed(8), **options).frames
