"""Denoising loss of dense and sparse attention on the same held-out clips, noise and levels.

    python -m training.loss --model models/wan-toy --out loss.json --device cuda
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from torch import Tensor

from training import clips, drawing, flow, folder
from training.formats import SMALL, Format
from training.sample import topk_for
from training.schedule import SPARSITIES, STAGES

CLIP_SEED, NOISE_SEED = 77, 78


def fixed_levels(count: int) -> Tensor:
    """Noise levels at equal quantiles of their distribution in the last stage of training."""
    u = (torch.arange(count) + 0.5) / count
    return flow.shifted(torch.special.ndtri(u).sigmoid(), STAGES["third"].noise_shift)


@torch.no_grad()
def denoising_losses(
    models: tuple, num_clips: int, num_levels: int, chunk: int, video: Format = SMALL, pair_share: float = 0.0,
    sparsities: tuple[float, ...] = SPARSITIES,
) -> dict[str, list[float]]:
    """Mean loss at each noise level, by sparsity."""
    transformer, text_encoder, tokenizer = models
    device = next(transformer.parameters()).device
    levels = fixed_levels(num_levels).to(device)
    totals = {sparsity: torch.zeros(num_levels, dtype=torch.float64, device=device) for sparsity in sparsities}
    for part in range(num_clips // chunk):
        drawn = clips.draw(chunk, CLIP_SEED + part, clips.EVALUATION, video=video, pair_share=pair_share)
        pixels = drawing.render(drawn, device)
        text = text_encoder(tokenizer.encode(drawn.captions).to(device))
        generator = torch.Generator().manual_seed(NOISE_SEED + part)
        noise = torch.randn(pixels.shape, generator=generator).to(device)
        for n, level in enumerate(levels):
            for sparsity in sparsities:
                topk = topk_for(transformer, pixels, sparsity)
                sigma = level.expand(chunk)
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    loss = flow.denoising_loss(transformer, text, pixels, noise, sigma, topk)
                totals[sparsity][n] += loss.sum() / (num_clips // chunk * chunk)
    return {str(sparsity): losses.tolist() for sparsity, losses in totals.items()}


def summary(by_level: dict[str, list[float]]) -> dict:
    """Means over the levels, and over that of dense attention."""
    mean = {sparsity: sum(losses) / len(losses) for sparsity, losses in by_level.items()}
    return {"loss": mean, "over_dense": {sparsity: loss / mean["0.0"] for sparsity, loss in mean.items()},
            "by_level": by_level}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clips", type=int, default=512)
    parser.add_argument("--levels", type=int, default=16)
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    transformer, text_encoder, tokenizer, _ = folder.read_folder(args.model)
    models = (transformer.to(args.device), text_encoder.to(args.device), tokenizer)
    by_level = denoising_losses(models, args.clips, args.levels, args.chunk)
    result = {"clips": args.clips, "levels": fixed_levels(args.levels).tolist(), **summary(by_level)}
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(result["over_dense"], file=sys.stderr)


if __name__ == "__main__":
    main()
