"""The same model, videos and seeds with dense attention and with VSA, within a time budget.

    python -m training.dit.experiment --work runs/experiment --minutes 20 --steps 10m=1000,60m=400

Runs come seed by seed, so that a budget that ends early leaves whole comparisons. A run is begun only if the time
left covers what its like took before. What was trained already is not trained again. Ends with report.py's plot and
table, which `python -m training.dit.report WORK` also makes alone.
"""
from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from training.dit import command, report, train

LEARNING_RATES = {"10m": 1e-3, "60m": 6e-4}


def arm_options(arm: str, steps: int, args: argparse.Namespace) -> list[str]:
    """"dense", or "vsa" with its sparsity: "vsa0.875"."""
    if arm == "dense":
        return ["--attention", "dense"]
    if not arm.startswith("vsa"):
        raise ValueError(f"[experiment] arms: expected dense or vsa with a sparsity (vsa0.75), got {arm}")
    return ["--attention", "vsa", "--sparsity", arm.removeprefix("vsa"),
            "--dense-steps", str(int(args.dense_share * steps)), "--decay-steps", str(int(args.decay_share * steps))]


def runs(args: argparse.Namespace) -> list[tuple[str, str, int]]:
    """(size, arm, seed) of every run, in their order."""
    return [(size, arm, seed) for seed in args.seeds for size in args.steps for arm in args.arms]


def options_of(args: argparse.Namespace, size: str, arm: str, seed: int) -> argparse.Namespace:
    steps = args.steps[size]
    options = ["--work", str(args.work / f"{size}-{arm}-{seed}"), "--size", size, "--seed", str(seed),
               "--steps", str(steps), "--batch", str(args.batch), *arm_options(arm, steps, args)]
    if size in LEARNING_RATES:
        options += ["--learning-rate", str(LEARNING_RATES[size])]
    return train.parser().parse_args([*options, *args.train_options])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="Options it does not know go to training.dit.train.")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True, help="for all runs together")
    parser.add_argument("--arms", type=lambda text: text.split(","), default=["dense", "vsa0.75", "vsa0.875"])
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--steps", type=_sizes, default=_sizes("10m=1000,60m=400"), help="SIZE=STEPS,...")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dense-share", type=float, default=0.1, help="of the steps, in which VSA keeps all tiles")
    parser.add_argument("--decay-share", type=float, default=0.2, help="then, in which its sparsity rises")
    args, args.train_options = parser.parse_known_args(arguments)

    end, took = time.monotonic() + 60 * args.minutes, {}
    for size, arm, seed in runs(args):
        likely = took.get((size, arm), max((s for (other, _), s in took.items() if other == size), default=0.0))
        left = end - time.monotonic()
        if left <= 0 or left < 1.05 * likely:
            print(f"{size} {arm} seed {seed}: left out, {left:.0f} s are left and it takes about {likely:.0f}",
                  file=sys.stderr)
            continue
        print(f"{size} {arm} seed {seed}", file=sys.stderr)
        begun = time.monotonic()
        options = options_of(args, size, arm, seed)
        options.minutes = left / 60
        train.run(options)
        took[size, arm] = time.monotonic() - begun
    report.write(args.work)


def _sizes(text: str) -> dict[str, int]:
    return {size: int(steps) for size, steps in (part.split("=") for part in text.split(","))}


if __name__ == "__main__":
    command.main("experiment", main)
