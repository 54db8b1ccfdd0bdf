"""Judges clips that a generator made for the prompts: accuracies as JSON, and plots.

    vsa generate --batch prompts.json -o 'vsa/{name}/%04d.png'
    vsa generate --batch prompts.json --attention dense -o 'dense/{name}/%04d.png'
    python -m training.evaluate --prompts prompts.json --vsa vsa --dense dense --out results
A clip is a folder of pictures (0007/*.png) or one file of raw RGB (0007.rgb); prompts without a clip
are left out and counted.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from training.judge import judge, summary
from training.plots import plot_accuracies
from training.prompts import Prompt, read_prompts
from training.sample import contact_sheet


def read_clip(root: Path, prompt: Prompt) -> Tensor | None:
    """uint8 [F, H, W, 3], or None where there is no complete clip."""
    raw, folder = root / f"{prompt.name}.rgb", root / prompt.name
    shape = (*dataclasses.astuple(prompt.format), 3)
    if raw.exists():
        frames = np.frombuffer(raw.read_bytes(), np.uint8)
        if frames.size != np.prod(shape):
            raise SystemExit(f"{raw}: expected {np.prod(shape)} bytes, got {frames.size}")
        return torch.from_numpy(frames.reshape(shape).copy())
    pictures = sorted(folder.glob("*.png"))
    if len(pictures) != shape[0]:
        return None
    frames = np.stack([np.asarray(Image.open(picture).convert("RGB")) for picture in pictures])
    if frames.shape != shape:
        raise SystemExit(f"{folder}: expected frames {shape}, got {frames.shape}")
    return torch.from_numpy(frames)


def judge_folder(root: Path, prompts: list[Prompt]) -> tuple[list[dict], Tensor]:
    """Records of the clips that are there, and the first of those clips."""
    found = [(prompt, read_clip(root, prompt)) for prompt in prompts]
    found = [(prompt, frames) for prompt, frames in found if frames is not None]
    if not found:
        raise SystemExit(f"{root}: expected clips named 0000.rgb or 0000/*.png, found none")
    frames = torch.stack([frames for _, frames in found])
    return judge(frames, [prompt for prompt, _ in found]), frames[:32]


def agreement(ours: list[dict], theirs: list[dict]) -> dict:
    """Accuracies of two generators on the prompts that both made."""
    common = {r["id"] for r in ours} & {r["id"] for r in theirs}
    pick = lambda records: summary([r for r in records if r["id"] in common])["total"]
    return {"clips": len(common), "vsa": pick(ours), "dense": pick(theirs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--vsa", type=Path, required=True, help="clips made with sparse attention")
    parser.add_argument("--dense", type=Path, help="clips made with dense attention")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    args = parser.parse_args()
    prompts = read_prompts(args.prompts)
    args.out.mkdir(parents=True, exist_ok=True)
    result, records = {"prompts": len(prompts)}, {}
    for name in ("vsa", "dense"):
        root = getattr(args, name)
        if root is None:
            continue
        records[name], first = judge_folder(root, prompts)
        result[name] = summary(records[name])
        result[name]["wrong"] = [r for r in records[name] if not all(r["correct"].values())]
        contact_sheet(first).save(args.out / f"samples_{name}.png")
        print(name, json.dumps(result[name]["total"]), file=sys.stderr)
    if len(records) == 2:
        result["same_prompts"] = agreement(records["vsa"], records["dense"])
    (args.out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    plot_accuracies(result, args.out / "evaluation.png")


if __name__ == "__main__":
    main()
