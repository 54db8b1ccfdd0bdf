"""A model between two: the weighted mean of their weights.

    python -m training.mix --from models/wan-toy --to runs/seventh/model --share 0.5 --out runs/mixed
Of two models of which one goes on from the other, the mean is often as good as either where each is best.
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import nn

from training import folder
from training.formats import Format


@torch.no_grad()
def mix_(ours: nn.Module, theirs: nn.Module, share: float) -> None:
    """Moves the weights of `ours` towards `theirs` by that share of the way."""
    mine, other = ours.state_dict(), theirs.state_dict()
    if mine.keys() != other.keys() or any(mine[name].shape != other[name].shape for name in mine):
        raise ValueError("[mix] expected models with the same weights, got others")
    for name, weight in mine.items():
        weight.lerp_(other[name], share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="first", type=Path, required=True, help="model folder; the settings are its own")
    parser.add_argument("--to", dest="second", type=Path, required=True, help="model folder")
    parser.add_argument("--share", type=float, required=True, help="of the second")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    *first, tokenizer, defaults = folder.read_folder(args.first)
    second = folder.read_folder(args.second)
    for ours, theirs in zip(first, second):
        mix_(ours, theirs, args.share)
    videos = json.loads((args.first / "model_index.json").read_text())["vsa"]["trained_videos"]
    folder.write_folder(args.out, *first, tokenizer, defaults, videos=tuple(Format(*video) for video in videos))


if __name__ == "__main__":
    main()
