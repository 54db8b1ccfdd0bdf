"""Tries steps, guidance and sparsity with PyTorch.

    python -m training.sweep --model models/wan-toy --prompts out/prompts.json \
        --steps 6,8,10 --guidance 1,2 --sparsity 0,0.75 --device cuda --out sweep.json
"""
from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

from training import folder
from training.judge import judge, summary
from training.prompts import read_prompts
from training.sample import sample_prompts

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


if __name__ == "__main__":
    main()
