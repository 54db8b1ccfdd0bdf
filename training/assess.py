"""Judges a model at every format and sparsity on a GPU: what 512 prompts give, and the denoising loss.

    python -m training.assess --model models/wan-toy --operator vsa_torch --out out/assessment
Writes assessment.json after every format, and for each format and sparsity a picture of its first clips. Samples as
the runtime does but for the noise, whose generator differs, and in mixed precision.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from training import folder, formats, judge, loss, prompts
from training.formats import FORMATS, Format
from training.sample import contact_sheet, sample_noise, start_noise

SPARSITIES = (0.0, 0.75, 0.875, 0.9)  # the default
SHOWN = 24  # clips in a picture
LEVELS = 16  # noise levels of the losses


def clips_at_a_time(video: Format, tokens: int) -> int:
    return max(1, tokens // video.tokens())


@torch.no_grad()
def judged(models, wanted: list, args: argparse.Namespace) -> tuple[dict, dict]:
    """Records and the first clips, both by sparsity, of prompts of one format."""
    device = next(models[0].parameters()).device
    records, shown = ({sparsity: [] for sparsity in args.sparsities} for _ in range(2))
    chunk = clips_at_a_time(wanted[0].format, args.tokens)
    for start in range(0, len(wanted), chunk):
        part = wanted[start : start + chunk]
        noise = start_noise(part, device)  # once for all sparsities: drawing it takes longer than a step
        for sparsity in args.sparsities:
            frames = sample_noise(models, part, noise, args.steps, args.guidance, sparsity, args.shift)
            records[sparsity] += judge.judge(frames, part)
            if start < SHOWN:
                shown[sparsity].append(frames[: SHOWN - start].cpu())
    return records, {sparsity: torch.cat(frames) for sparsity, frames in shown.items()}


def assess(models, video: Format, args: argparse.Namespace) -> dict:
    wanted = prompts.make_prompts(args.count, args.seed, video, args.pairs)
    begun = time.monotonic()
    records, shown = judged(models, wanted, args)
    result = {"prompts": len(wanted), "seed": args.seed, "steps": args.steps, "shift": args.shift,
              "guidance": args.guidance, "judged": {}}
    for sparsity in args.sparsities:
        result["judged"][str(sparsity)] = judge.summary(records[sparsity])
        contact_sheet(shown[sparsity], columns=3).save(args.out / f"{video}-{sparsity}.png")
        shares = [result["judged"][str(sparsity)][group]["all"] for group in ("one_object", "two_objects")]
        print(f"{video} sparsity {sparsity}: whole captions right, one and two objects: {shares}", file=sys.stderr)
    result["wrong"] = [{"sparsity": sparsity, **r} for sparsity in args.sparsities for r in records[sparsity]
                       if not all(r["correct"][name] for name in judge.CORE)]
    sampled = time.monotonic()
    result["seconds"] = [sampled - begun]
    if args.loss_tokens:
        chunk = clips_at_a_time(video, args.tokens)
        count = chunk * max(1, args.loss_tokens // args.tokens)
        by_level = loss.denoising_losses(models, count, LEVELS, chunk, video, args.pairs, tuple(args.sparsities))
        result["denoising"] = loss.summary(by_level)
        result["seconds"].append(time.monotonic() - sampled)
        print(f"{video} loss over dense: {result['denoising']['over_dense']}", file=sys.stderr, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--formats", type=lambda text: [formats.parse(name) for name in text.split(",")],
                        default=list(FORMATS.values()))
    parser.add_argument("--count", type=int, default=prompts.COUNT, help="prompts of each format")
    parser.add_argument("--seed", type=int, default=prompts.SEED)
    parser.add_argument("--pairs", type=float, default=0.5, help="share of the prompts that name two objects")
    parser.add_argument("--sparsities", type=lambda text: [float(part) for part in text.split(",")],
                        default=list(SPARSITIES), help="the losses need 0 among them")
    parser.add_argument("--steps", type=int, help="default: the model's")
    parser.add_argument("--shift", type=float, default=folder.SHIFT, help="of the sampler's noise levels")
    parser.add_argument("--guidance", type=float, default=1.0, help="1: none")
    parser.add_argument("--tokens", type=int, default=1 << 19, help="at a time")
    parser.add_argument("--loss-tokens", type=int, default=1 << 20, help="of the clips that the losses are means of; 0: no losses")
    parser.add_argument("--operator", choices=("pytorch", "vsa_torch"), default="pytorch", help="what computes attention")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    transformer, text_encoder, tokenizer, defaults = folder.read_folder(args.model)
    args.steps = args.steps or defaults.steps
    if args.operator == "vsa_torch":
        from training.operator import attention  # the only part that needs the package vsa_torch

        transformer.set_attention(attention)
    if not args.no_compile:
        transformer.compile_blocks()
    models = (transformer.to(args.device).requires_grad_(False), text_encoder.to(args.device), tokenizer)
    args.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for video in args.formats:
        results[str(video)] = assess(models, video, args)
        (args.out / "assessment.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
