"""Tries steps, guidance and sparsity with PyTorch, and measures the denoising loss.

    python -m training.sweep --model models/wan-toy --prompts training/results/prompts.json \
        --steps 6,8,10 --guidance 1,2 --sparsity 0,0.75 --device cuda --out sweep.json
"""
from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

import torch

from training import clips, flow, folder
from training.judge import judge, summary
from training.prompts import read_prompts
from training.sample import sample_prompts, topk_for
from training.schedule import SPARSITIES, STAGES

LOSS_SEED, NOISE_SEED = 77, 78
LOSS_CLIPS, LOSS_LEVELS = 512, 16


@torch.no_grad()
def denoising_losses(models: tuple, chunk: int = 64, count: int = LOSS_CLIPS) -> dict[str, float]:
    """Mean loss at each sparsity on the same held-out clips, noise and noise levels."""
    transformer, text_encoder, tokenizer = models
    device = next(transformer.parameters()).device
    u = (torch.arange(LOSS_LEVELS, device=device) + 0.5) / LOSS_LEVELS
    # Quantiles of the distribution in training.
    levels = flow.shifted(torch.special.ndtri(u).sigmoid(), STAGES["second"].noise_shift)
    totals = dict.fromkeys(SPARSITIES, 0.0)
    for part in range(count // chunk):
        drawn = clips.draw(chunk, LOSS_SEED + part, clips.EVALUATION)
        pixels = clips.render(drawn, device)
        text = text_encoder(tokenizer.encode(drawn.captions).to(device))
        generator = torch.Generator().manual_seed(NOISE_SEED + part)
        noise = torch.randn(pixels.shape, generator=generator).to(device)
        for level, sparsity in itertools.product(levels, SPARSITIES):
            topk = topk_for(transformer, pixels, sparsity)
            sigma = level.expand(chunk)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = flow.denoising_loss(transformer, text, pixels, noise, sigma, topk)
            totals[sparsity] += loss.sum().item()
    return {str(k): v / (count // chunk * chunk * LOSS_LEVELS) for k, v in totals.items()}


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=numbers, default=[6, 8, 10, 12, 16, 20])
    parser.add_argument("--guidance", type=numbers, default=[1, 1.5, 2, 3, 4])
    parser.add_argument("--sparsity", type=numbers, default=[0, 0.75])
    parser.add_argument("--count", type=int, help="only the first prompts")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    transformer, text_encoder, tokenizer, _ = folder.read_folder(args.model)
    models = (transformer.to(args.device), text_encoder.to(args.device), tokenizer)
    prompts = read_prompts(args.prompts)[: args.count]
    runs = []
    for steps, guidance, sparsity in itertools.product(args.steps, args.guidance, args.sparsity):
        settings = {"steps": int(steps), "guidance": guidance, "sparsity": sparsity}
        start = time.monotonic()
        accuracies = summary(judge(sample_prompts(models, prompts, **settings), prompts))
        runs.append({**settings, **accuracies})
        line = " ".join(f"{k} {v:.3f}" for k, v in accuracies["total"].items() if v is not None)
        print(settings, line, f"{time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
        # Written after every setting: an interrupted sweep keeps what it measured.
        args.out.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    losses = denoising_losses(models)
    print(f"denoising loss {losses}", file=sys.stderr, flush=True)
    args.out.write_text(json.dumps({"denoising_loss": losses, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
