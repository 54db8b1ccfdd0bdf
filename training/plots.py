"""Pictures of the training log and of an evaluation.

    python -m training.plots --out loss.png first=log_first.jsonl second=log_second.jsonl
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

SMOOTHED = 9  # log lines in the running mean
LONGEST_GAP = 400  # steps; log lines further apart are not joined
BARS = ("colour", "shape", "motion", "background", "size", "all", "all_stated")


def plot_accuracies(result: dict, path: Path) -> None:
    """Bars by attribute: sparse and dense on the left, seen and held-out combinations right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), sharey=True, layout="constrained")
    modes = {mode: result[mode]["total"] for mode in ("vsa", "dense") if mode in result}
    groups = {group.replace("_", " "): result["vsa"][group] for group in ("seen", "held_out")}
    for axis, bars, title in (
        (left, modes, "attention"),
        (right, groups, "combination of shape, colour and motion (vsa)"),
    ):
        width = 0.8 / len(bars)
        for n, (label, shares) in enumerate(bars.items()):
            heights = [100 * (shares[name] or 0) for name in BARS]
            place = np.arange(len(BARS)) + (n - (len(bars) - 1) / 2) * width
            drawn = axis.bar(place, heights, width, label=f"{label}, {shares['clips']} clips")
            axis.bar_label(drawn, fmt="%.1f", fontsize=6)
        axis.set_xticks(range(len(BARS)), [name.replace("_", " ") for name in BARS])
        axis.set_title(title)
        axis.set_ylim(0, 108)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
    left.set_ylabel("% of clips as the prompt says")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def plot_losses(logs: dict[str, Path], path: Path) -> None:
    """Loss over steps, one panel a stage, one curve a sparsity."""
    figure, axes = plt.subplots(1, len(logs), figsize=(6 * len(logs), 4), layout="constrained", squeeze=False)
    for axis, (name, log) in zip(axes[0], logs.items()):
        curves: dict[float, list[tuple]] = {}
        for entry in map(json.loads, log.read_text().splitlines()):
            # A log of training/dit has a header, one sparsity a line, and an evaluation at the end.
            levels = {entry["sparsity"]: entry["loss"]} if "loss" in entry and "sparsity" in entry else {}
            for level, loss in entry.get("loss_at_sparsity", levels).items():
                curves.setdefault(float(level), []).append((entry["step"], loss))
        for level, points in sorted(curves.items()):
            steps, losses = np.array(points).T
            size = min(SMOOTHED, len(losses))
            mean = np.convolve(losses, np.ones(size) / size, "valid")
            steps = steps[size - 1 :]
            # No line across steps in which this sparsity was not trained.
            gaps = np.flatnonzero(np.diff(steps) > LONGEST_GAP) + 1
            label = f"sparsity {level:g}" if level else "dense"
            axis.plot(np.insert(steps, gaps, np.nan), np.insert(mean, gaps, np.nan), label=label, linewidth=1)
        axis.set_yscale("log")
        axis.set_title(name)
        axis.set_xlabel("step")
        axis.set_ylabel("velocity error (mean square)")
        axis.legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("logs", nargs="+", help="TITLE=LOG.jsonl")
    args = parser.parse_args()
    plot_losses({k: Path(v) for k, v in (log.split("=", 1) for log in args.logs)}, args.out)


if __name__ == "__main__":
    main()
