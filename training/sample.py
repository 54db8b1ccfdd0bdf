"""Samples prompts with PyTorch, as the runtime does but for the noise, whose generator differs.

    python -m training.sample --model models/wan-toy --prompts out/prompts.json --out out
"""
from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from training import drawing, flow, folder
from training.attention import tile_plan, topk_of
from training.model import WanTransformer
from training.prompts import Prompt, read_prompts
from training.text_encoder import UMT5Encoder
from training.tokenizer import Tokenizer


def start_noise(prompts: list[Prompt], device: torch.device) -> Tensor:
    """[B, 3, F, H, W] for prompts of one format; drawn on the CPU, so the same on every device."""
    shape = (3, *dataclasses.astuple(prompts[0].format))
    seeds = [torch.Generator().manual_seed(prompt.seed) for prompt in prompts]
    return torch.stack([torch.randn(shape, generator=seed) for seed in seeds]).to(device)


def topk_for(transformer: WanTransformer, pixels: Tensor, sparsity: float) -> int:
    grid = transformer.grid_of(pixels)
    return topk_of(sparsity, tile_plan(grid, transformer.config.tile_shape).num_tiles)


def sample_noise(
    models: tuple[WanTransformer, UMT5Encoder, Tokenizer],
    prompts: list[Prompt],
    noise: Tensor,
    steps: int,
    guidance: float,
    sparsity: float,
    shift: float = folder.SHIFT,
) -> Tensor:
    """Frames uint8 [B, F, H, W, 3] from noise [B, 3, F, H, W]. Mixed precision on a GPU, fp32 on the CPU."""
    transformer, text_encoder, tokenizer = models
    ids, empty = (tokenizer.encode(texts).to(noise.device) for texts in ([p.prompt for p in prompts], [""]))
    topk = topk_for(transformer, noise, sparsity)
    with torch.autocast(noise.device.type, torch.bfloat16, enabled=noise.device.type == "cuda"):
        pixels = flow.sample(transformer, text_encoder, ids, empty, noise, steps, guidance, topk, shift)
    return drawing.to_uint8(pixels)


def sample_prompts(
    models: tuple[WanTransformer, UMT5Encoder, Tokenizer],
    prompts: list[Prompt],
    steps: int,
    guidance: float,
    sparsity: float,
    chunk: int = 64,
) -> Tensor:
    """Frames uint8 [B, F, H, W, 3] on the CPU, of prompts of one format."""
    device = next(models[0].parameters()).device
    parts = (prompts[start : start + chunk] for start in range(0, len(prompts), chunk))
    frames = (sample_noise(models, part, start_noise(part, device), steps, guidance, sparsity) for part in parts)
    return torch.cat([part.cpu() for part in frames])


def contact_sheet(frames: Tensor, columns: int = 4, frames_each: int = 4) -> Image.Image:
    """A few frames of every clip [B, F, H, W, 3], side by side, clips in rows."""
    picked = np.linspace(0, frames.shape[1] - 1, frames_each).round().astype(int)
    strips = [np.concatenate(list(clip[picked].numpy()), axis=1) for clip in frames]
    strips += [np.zeros_like(strips[0])] * (-len(strips) % columns)
    rows = [np.concatenate(strips[i : i + columns], axis=1) for i in range(0, len(strips), columns)]
    return Image.fromarray(np.concatenate(rows))


def write_frames(root: Path, prompts: list[Prompt], frames: Tensor) -> None:
    """ROOT/0007.rgb: the frames of prompt 7, uint8 [F, H, W, 3]; what training.evaluate reads."""
    root.mkdir(parents=True, exist_ok=True)
    for prompt, clip in zip(prompts, frames):
        (root / f"{prompt.name}.rgb").write_bytes(clip.numpy().tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, help="only the first prompts")
    parser.add_argument("--steps", type=int, help="default: the model's")
    parser.add_argument("--guidance", type=float, help="default: the model's")
    parser.add_argument("--sparsity", type=float, help="default: the model's; 0 is dense")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    transformer, text_encoder, tokenizer, defaults = folder.read_folder(args.model)
    models = (transformer.to(args.device), text_encoder.to(args.device), tokenizer)
    prompts = read_prompts(args.prompts)[: args.count]
    settings = {
        name: getattr(defaults if getattr(args, name) is None else args, name)
        for name in ("steps", "guidance", "sparsity")
    }
    frames = sample_prompts(models, prompts, **settings)
    write_frames(args.out, prompts, frames)
    contact_sheet(frames[:64]).save(args.out / "sheet.png")
    print(f"{len(prompts)} clips with {settings} in {args.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
