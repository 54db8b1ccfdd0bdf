"""Writes tests/golden/wan-diffusers: a tiny Wan2.1 with a VAE, and what diffusers' WanPipeline makes of it.

Run from the root of the repository, with the packages of tests/torch/requirements.txt:
    python tools/make_wan_golden.py
"""
from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import peft
import torch
import transformers
from diffusers import (AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler, WanPipeline,
                       WanTransformer3DModel)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from training.folder import write_json, write_tensors  # noqa: E402
from training.tokenizer import Tokenizer  # noqa: E402

SEED = 61
NOISE_SEED = 7
PROMPT = "a small red star moving left"
STEPS, GUIDANCE, SHIFT = 4, 5.0, 3.0
FRAMES, HEIGHT, WIDTH = 9, 32, 48  # pixels; latents of 3 x 4 x 6, tokens of 3 x 2 x 3
TEXT_ROWS = 512
FEW_STEP = (8.0, [1000, 757, 522])  # FastWan's shift and timesteps
TRANSFORMER = {"patch_size": [1, 2, 2], "num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 16,
               "out_channels": 16, "text_dim": 24, "freq_dim": 32, "ffn_dim": 32, "num_layers": 2,
               "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads", "eps": 1e-6, "rope_max_seq_len": 32}
# The heads of diffusers' own tests, which the CPU backend does not take and the reference does.
NARROW = {**TRANSFORMER, "attention_head_dim": 12, "num_layers": 1}
TEXT = {"vocab_size": 64, "d_model": 24, "d_kv": 8, "d_ff": 37, "num_heads": 3, "num_layers": 2,
        "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
        "feed_forward_proj": "gated-gelu", "pad_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": False}
VAE = {"base_dim": 3, "z_dim": 16, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1,
       "temperal_downsample": [False, True, True]}


def normal(seed: int, stream: int, count: int) -> np.ndarray:
    """runtime/sampler/noise.h, restated: Philox4x32-10, then Box and Muller in f64."""
    mask = np.uint64(0xFFFFFFFF)
    pair = np.arange((count + 1) // 2, dtype=np.uint64)
    c = [pair & mask, pair >> np.uint64(32), np.full_like(pair, stream & 0xFFFFFFFF), np.full_like(pair, stream >> 32)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]), b & mask,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]), a & mask]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    u1 = ((c[0] + (c[1] << np.uint64(32))) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
    u2 = ((c[2] + (c[3] << np.uint64(32))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    r = np.sqrt(-2.0 * np.log(u1))
    both = np.stack([r * np.cos(2.0 * math.pi * u2), r * np.sin(2.0 * math.pi * u2)], axis=-1)
    return both.reshape(-1)[:count].astype(np.float32)


def noise(stream: int, shape: tuple) -> torch.Tensor:
    return torch.from_numpy(normal(NOISE_SEED, stream, math.prod(shape)).copy()).reshape(shape)


def randomise(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Far from any initialisation: each weight, bias and norm shows in the outputs."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith("gamma") or ("norm" in name and name.endswith("weight")):
            values = 1.0 + 0.3 * values
        elif parameter.dim() == 1:
            values *= 0.3
        elif "scale_shift_table" in name:
            values *= 0.3
        elif name.startswith(("decoder", "encoder.conv", "encoder.down", "post_quant", "quant")):
            values *= parameter[0].numel() ** -0.5
        else:
            values *= 0.15
        if name == "decoder.conv_out.weight":
            values *= 0.4  # few pixels are clamped
        parameter.data = values
    return model.requires_grad_(False).eval()


def set_levels(scheduler, sigmas: list[float], timesteps: list[float]) -> None:
    """Makes a scheduler of diffusers run on other levels than its own."""
    def set_timesteps(*_, **__):
        type(scheduler).set_timesteps(scheduler, len(timesteps))
        scheduler.sigmas = torch.tensor(sigmas, dtype=torch.float32)
        scheduler.timesteps = torch.tensor(timesteps)
    scheduler.set_timesteps = set_timesteps


def shifted(u: float, shift: float) -> float:
    return shift * u / (1 + (shift - 1) * u)


def schedulers() -> dict:
    """By vsa's names. Wan's and FastVideo's UniPC are diffusers' on other levels."""
    def unipc():
        return UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=SHIFT)
    found = {"unipc": unipc(), "euler": FlowMatchEulerDiscreteScheduler(shift=SHIFT)}
    top = 1 - 1 / 1000
    for name, upper in (("unipc-wan", top), ("unipc-fastvideo", shifted(top, SHIFT))):
        sigmas = [shifted(upper * (1 - i / STEPS), SHIFT) for i in range(STEPS)]
        found[name] = unipc()
        set_levels(found[name], [*sigmas, 0.0], [int(1000 * s) for s in sigmas])
    sigmas = [shifted(1 - i / STEPS, SHIFT) for i in range(STEPS)]
    found["euler-plain"] = FlowMatchEulerDiscreteScheduler(shift=SHIFT)
    set_levels(found["euler-plain"], [*sigmas, 0.0], [1000 * s for s in sigmas])
    return found


def few_step(pipe: WanPipeline, embeds: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """FastVideo's sampler: x0 of each prediction, then fresh noise, without guidance."""
    shift, timesteps = FEW_STEP
    table = [shifted((j + 1) / 1000, shift) for j in range(1000)]
    sigmas = [min(table, key=lambda s, t=t: abs(1000 * s - t)) for t in timesteps]
    for i, (t, sigma) in enumerate(zip(timesteps, sigmas)):
        v = pipe.transformer(x, torch.tensor([t]), embeds, return_dict=False)[0]
        x = (x.double() - sigma * v.double()).float()
        if i + 1 < len(timesteps):
            x = (1 - sigmas[i + 1]) * x + sigmas[i + 1] * noise(i + 1, x.shape)
    return x


def lora_files(out: Path, transformer: WanTransformer3DModel) -> WanTransformer3DModel:
    """Trains nothing: random adapters by peft, saved by diffusers and under Wan's names, and the merged model."""
    config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=["to_q", "to_out.0", "net.0.proj"],
                             alpha_pattern={"blocks.1.attn1.to_q": 1.5}, init_lora_weights=False)
    transformer.add_adapter(config)
    generator = torch.Generator().manual_seed(SEED + 9)
    for name, parameter in transformer.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.2
    state = peft.get_peft_model_state_dict(transformer)
    scale = {name: 1.5 / 3 if name == "blocks.1.attn1.to_q" else 6 / 3
             for name in {key.rsplit(".lora_", 1)[0] for key in state}}
    metadata = {"transformer.r": 3, "transformer.lora_alpha": 6, "transformer.use_dora": False,
                "transformer.alpha_pattern": {"blocks.1.attn1.to_q": 1.5}}
    write_tensors(out / "lora-diffusers.safetensors", {f"transformer.{n}": t for n, t in state.items()},
                  {"lora_adapter_metadata": json.dumps(metadata, indent=2, sort_keys=True), "format": "pt"})
    wan = {}
    for name, tensor in state.items():
        module, half = name.rsplit(".lora_", 1)
        for theirs, ours in (("attn1", "self_attn"), ("attn2", "cross_attn"), ("to_q", "q"), ("to_out.0", "o"),
                             ("net.0.proj", "0")):
            module = module.replace(theirs, ours)
        wan[f"diffusion_model.{module}.lora_{'down' if half[0] == 'A' else 'up'}.weight"] = tensor
        wan[f"diffusion_model.{module}.alpha"] = torch.tensor(3 * scale[name.rsplit(".lora_", 1)[0]])
    write_tensors(out / "lora-wan.safetensors", wan, {"format": "pt"})
    return transformer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden/wan-diffusers")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    tokenizer = Tokenizer((ROOT / "tests/golden/wan-tiny/tokenizer/spiece.model").read_bytes())
    text_config = {**TEXT, "vocab_size": tokenizer.vocab_size}
    transformer = randomise(WanTransformer3DModel(**TRANSFORMER), SEED)
    narrow = randomise(WanTransformer3DModel(**NARROW), SEED + 1)
    text = randomise(transformers.UMT5EncoderModel(transformers.UMT5Config(**text_config)), SEED + 2)
    vae = randomise(AutoencoderKLWan(**VAE), SEED + 3)
    tables = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=SHIFT)

    def embed(prompt: str) -> torch.Tensor:
        """As WanPipeline does: rows behind the valid ones are zeros."""
        ids = tokenizer.encode([prompt])
        valid = int((ids != 0).sum())
        padded = torch.zeros(1, TEXT_ROWS, dtype=torch.long)
        padded[0, :valid] = ids[0, :valid]
        hidden = text(padded, (torch.arange(TEXT_ROWS) < valid).long()[None]).last_hidden_state
        return torch.cat([hidden[:, :valid], torch.zeros(1, TEXT_ROWS - valid, TEXT["d_model"])], dim=1)

    embeds, negative = embed(PROMPT), embed("")
    generator = torch.Generator().manual_seed(SEED + 4)
    latents = torch.randn(1, 16, 5, 8, 6, generator=generator)
    inputs = (latents, torch.tensor([757]), embeds)
    expected = {"latents": latents, "velocity": transformer(*inputs, return_dict=False)[0],
                "velocity.narrow": narrow(*inputs, return_dict=False)[0], "text": embeds[0, :12]}

    pipe = WanPipeline(tokenizer=None, text_encoder=None, transformer=transformer, vae=vae, scheduler=tables)
    pipe.set_progress_bar_config(disable=True)
    shape = (1, 16, (FRAMES - 1) // 4 + 1, HEIGHT // 8, WIDTH // 8)
    call = {"prompt_embeds": embeds, "negative_prompt_embeds": negative, "height": HEIGHT, "width": WIDTH,
            "num_frames": FRAMES, "num_inference_steps": STEPS, "guidance_scale": GUIDANCE}
    for name, scheduler in schedulers().items():
        pipe.scheduler = scheduler
        expected[f"{name}.latents"] = pipe(**call, latents=noise(0, shape), output_type="latent").frames
    pipe.scheduler = schedulers()["unipc"]
    frames = pipe(**call, latents=noise(0, shape), output_type="pt").frames[0]  # [frames, 3, height, width] in [0, 1]
    expected["unipc.frames"] = frames
    expected["few-step.latents"] = few_step(pipe, embeds, noise(0, shape))
    expected = {name: t.contiguous() for name, t in expected.items()}
    assert all(t.isfinite().all() for t in expected.values())
    print(f"pixels clamped: {((frames == 0) | (frames == 1)).float().mean():.1%}, std {frames.std():.2f}")

    def save(folder: str, file: str, model, config: dict) -> None:
        write_json(args.out / folder / "config.json", config)
        alias = "encoder.embed_tokens.weight"  # of shared.weight
        state = {name: t for name, t in model.state_dict().items() if name != alias}
        write_tensors(args.out / folder / file, state, {"format": "pt"})

    save("transformer", "diffusion_pytorch_model.safetensors", transformer,
         {"_class_name": "WanTransformer3DModel", **TRANSFORMER})
    save("narrow", "diffusion_pytorch_model.safetensors", narrow, {"_class_name": "WanTransformer3DModel", **NARROW})
    save("vae", "diffusion_pytorch_model.safetensors", vae, {"_class_name": "AutoencoderKLWan", **VAE})
    save("text_encoder", "model.safetensors", text,
         {"architectures": ["UMT5EncoderModel"], "model_type": "umt5", **text_config})
    write_json(args.out / "scheduler/scheduler_config.json",
               {"_class_name": "UniPCMultistepScheduler",
                **{k: v for k, v in sorted(tables.config.items()) if not k.startswith("_")}})
    write_json(args.out / "model_index.json",
               {"_class_name": "WanPipeline", "boundary_ratio": None, "expand_timesteps": False,
                "scheduler": ["diffusers", "UniPCMultistepScheduler"],
                "text_encoder": ["transformers", "UMT5EncoderModel"], "tokenizer": ["transformers", "T5TokenizerFast"],
                "transformer": ["diffusers", "WanTransformer3DModel"], "transformer_2": [None, None],
                "vae": ["diffusers", "AutoencoderKLWan"]})
    (args.out / "tokenizer").mkdir()
    (args.out / "tokenizer/spiece.model").write_bytes(tokenizer.model)
    merged = lora_files(args.out, transformer)
    expected["velocity.lora"] = merged(*inputs, return_dict=False)[0].contiguous()
    write_tensors(args.out / "expected.safetensors", expected, {"prompt": PROMPT})
    for path in sorted(p for p in args.out.rglob("*") if p.is_file()):
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(args.out))


if __name__ == "__main__":
    with torch.no_grad():
        main()
