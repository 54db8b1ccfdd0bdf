"""Pictures of the training log and of an evaluation.

    python -m training.plots --out loss.png first=log_first.jsonl second=log_second.jsonl
    python -m training.plots --out loss.png wide=log.jsonl@16x128x128     # of a log of several formats, one
"""
from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.ticker import LogLocator, NullLocator  # noqa: E402

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


def plot_losses(logs: dict[str, str | Path], path: Path) -> None:
    """Loss over steps, one panel a stage, one curve a sparsity. All panels but the first, which begins with random
    weights, have the same losses on their axis."""
    stages = {name: loss_curves(log) for name, log in logs.items()}
    levels = sorted({level for curves in stages.values() for level in curves})
    columns = math.ceil(math.sqrt(len(logs)))
    rows = math.ceil(len(logs) / columns)
    size = (6 * columns, 4 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    panels = list(axes.flat)
    for unused in panels[len(logs) :]:
        unused.remove()
    for axis, (name, curves) in zip(panels, stages.items()):
        if axis in panels[2:]:
            axis.sharey(panels[1])
        for level, points in sorted(curves.items()):
            steps, losses = np.array(points).T
            mean = running_mean(losses, SMOOTHED)
            steps = steps[len(losses) - len(mean) :]
            # No line across steps in which this sparsity was not trained.
            gaps = np.flatnonzero(np.diff(steps) > LONGEST_GAP) + 1
            axis.plot(
                np.insert(steps, gaps, np.nan),
                np.insert(mean, gaps, np.nan),
                label=f"sparsity {level:g}",
                color=f"C{levels.index(level)}",
                linewidth=1,
            )
        axis.set(title=name, xlabel="step", yscale="log")
        axis.set_ylabel(f"mean square error of the velocity,\nmean of {SMOOTHED} log lines")
        low, high = axis.get_ylim()
        subs = (1, 2, 5) if high > 10 * low else (1, 1.2, 1.5, 2, 3, 5)
        decimal_loss_axis(axis, subs)
        axis.legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def running_mean(losses, lines: int) -> np.ndarray:
    """Of so many lines up to each, from the first that has as many; of all where there are fewer."""
    window = min(lines, len(losses))
    return np.convolve(losses, np.ones(window) / window, "valid")


def decimal_loss_axis(axis, subs: tuple[float, ...] = (1, 2, 5)) -> None:
    """Plain numbers at these multiples of powers of ten on a logarithmic y axis, and a grid."""
    axis.yaxis.set_major_locator(LogLocator(subs=subs))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_locator(NullLocator())
    axis.grid(alpha=0.3)


def loss_curves(log: str | Path) -> dict[float, list[tuple[int, float]]]:
    """(step, loss) of every sparsity, of LOG or LOG@FORMAT: without a format, of the first that is in the log."""
    path, _, video = str(log).partition("@")
    curves: dict[float, list[tuple[int, float]]] = {}
    for entry in map(json.loads, Path(path).read_text().splitlines()):
        # A log of training/dit has a header, one sparsity a line, and an evaluation at the end. Logs of train.py had
        # loss_at_sparsity while there was one format.
        own = "loss" in entry and "sparsity" in entry
        levels = {entry["sparsity"]: entry["loss"]} if own else {}
        at = entry.get("loss_at", {"": entry["loss_at_sparsity"]} if "loss_at_sparsity" in entry else {})
        video = video or next(iter(at), "")
        for level, loss in at.get(video, levels).items():
            curves.setdefault(float(level), []).append((entry["step"], loss))
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("logs", nargs="+", help="TITLE=LOG.jsonl or TITLE=LOG.jsonl@FORMAT")
    args = parser.parse_args()
    plot_losses(dict(log.split("=", 1) for log in args.logs), args.out)


if __name__ == "__main__":
    main()
