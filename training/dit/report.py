"""What an experiment's runs show: results.json, table.md and loss.png in its folder.

    python -m training.dit.report runs/experiment
"""
from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from training.dit import log as log_file  # noqa: E402
from training.dit.settings import Settings  # noqa: E402
from training.plots import decimal_loss_axis, running_mean  # noqa: E402

LAST_SHARE = 0.05  # of a run's log lines make up its final training loss
SMOOTHED = 5  # log lines in the running mean that dense_needs compares
PLOTTED = 3  # and in that of the plot
NEVER = float("inf")


def arm_of(settings: dict) -> str:
    return "dense" if settings["attention"] == "dense" else f"VSA {settings['sparsity']:.1%}"


def read(work: Path) -> list[dict]:
    """One entry a finished run, with its curve."""
    found = []
    for log in sorted(work.glob("*/log.jsonl")):
        header, *lines = log_file.read(log)
        steps, final = [line for line in lines if "step" in line], [line for line in lines if "final_step" in line]
        if not final:
            print(f"{log.parent.name}: left out, it is not finished", file=sys.stderr)
            continue
        settings, last = header["settings"], steps[-1]
        tail = [line["loss"] for line in steps[-max(1, round(LAST_SHARE * len(steps))):]]
        # The later half: at the target sparsity, and without the first steps' compilation.
        pace = statistics.median(line["ms_per_step"] for line in steps[len(steps) // 2:])
        found.append({"size": settings["size"], "arm": arm_of(settings), "seed": settings["seed"],
                      "settings": settings, "data": header["data"], "weights": header.get("weights"),
                      "parameters": header["parameters"], "tokens": header["tokens"], "steps": settings["steps"],
                      "batch": settings["batch"], "device": header["device"],
                      "evaluation_loss": final[-1]["evaluation_loss"], "training_loss": statistics.mean(tail),
                      "seconds": last["seconds"], "ms_per_step": pace, "training_flops": last["training_flops"],
                      "attention_flops": last["attention_flops"], "peak_memory_mib": last.get("peak_memory_mib"),
                      "curve": [(line["step"], line["training_flops"], line["loss"]) for line in steps]})
    return found


def check_comparable(results: list[dict]) -> None:
    """Runs of one size differ in their arm and seed alone."""
    own = {"seed", "attention", "sparsity", "dense_steps", "decay_steps", "decay_levels", "tile_shape", "micro_batch"}
    first: dict[str, dict] = {}
    for result in results:
        shared = {name: value for name, value in result["settings"].items() if name not in own}
        shared |= {name: result[name] for name in ("data", "weights")}
        other = first.setdefault(result["size"], shared)
        changed = [name for name in shared if shared[name] != other[name]]
        if changed:
            raise SystemExit(f"[report] {result['size']}: expected runs that differ in attention and seed alone, got "
                             f"two values of {', '.join(changed)}")


def groups(results: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Runs that differ in the seed alone, by size and arm; dense comes first."""
    ordered = sorted(results, key=lambda r: (r["size"], r["arm"] != "dense", r["arm"], r["seed"]))
    grouped: dict[tuple[str, str], list[dict]] = {}
    for result in ordered:
        grouped.setdefault((result["size"], result["arm"]), []).append(result)
    return grouped


def spread(values: list[float]) -> str:
    """Mean, and the standard deviation where there are several."""
    text = f"{statistics.mean(values):.5f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):.5f}"


def dense_needs(dense: dict, run: dict) -> float:
    """FLOPs after which dense's training loss, a running mean, first is what the run's is at its end, over those of
    the run; NEVER where it does not get there."""
    _, operations, losses = np.array(dense["curve"]).T
    mean = running_mean(losses, SMOOTHED)
    reached = np.flatnonzero(mean <= running_mean([loss for _, _, loss in run["curve"]], SMOOTHED)[-1])
    return operations[len(losses) - len(mean) + reached[0]] / run["training_flops"] if len(reached) else NEVER


def extent(values: list[float]) -> str:
    """Least to most."""
    texts = ["never" if value == NEVER else f"{value:.2f} x" for value in (min(values), max(values))]
    return " to ".join(dict.fromkeys(texts))


def table(results: list[dict]) -> str:
    lines = ["| size | attention | seeds | parameters | loss, held-out videos | to dense, same seeds | loss, training | "
             "training FLOPs / 1e15 | of them attention | to dense | dense needs for its loss | ms a step | seconds | "
             "MiB |", "|---" * 14 + "|"]
    grouped = groups(results)
    for (size, arm), runs in grouped.items():
        dense = {run["seed"]: run for run in grouped.get((size, "dense"), [])}
        pairs = [(run, dense[run["seed"]]) for run in runs if run["seed"] in dense]
        ratios = [run["evaluation_loss"] / other["evaluation_loss"] for run, other in pairs]
        fewer = needs = ""
        if pairs and arm != "dense":
            fewer = f"{pairs[0][1]['training_flops'] / pairs[0][0]['training_flops']:.2f} x fewer"
            needs = extent([dense_needs(other, run) for run, other in pairs])
        first = runs[0]
        # The least: a later run in a process has what earlier ones left there.
        memory = [run["peak_memory_mib"] for run in runs if run["peak_memory_mib"] is not None]
        cells = [size, arm, len(runs), f"{first['parameters'] / 1e6:.1f} M",
                 spread([run["evaluation_loss"] for run in runs]), spread(ratios) if ratios else "",
                 spread([run["training_loss"] for run in runs]), f"{first['training_flops'] / 1e15:.3f}",
                 f"{first['attention_flops'] / 1e15:.3f}", fewer, needs,
                 f"{statistics.median(run['ms_per_step'] for run in runs):.1f}",
                 f"{statistics.median(run['seconds'] for run in runs):.0f}", min(memory) if memory else ""]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def plot(results: list[dict], path: Path) -> None:
    """A column a size: the training loss over steps above, over training FLOPs below. An arm's line is the mean over its
    seeds in a band from the least to the most; dotted lines are where its sparsity changes."""
    grouped = groups(results)
    sizes, arms = (list(dict.fromkeys(key[part] for key in grouped)) for part in (0, 1))
    figure, axes = plt.subplots(2, len(sizes), figsize=(6 * len(sizes), 8), layout="constrained", squeeze=False)
    for (size, arm), runs in grouped.items():
        steps, operations, losses = common_lines(runs)
        means = np.array([running_mean(of_run, PLOTTED) for of_run in losses])
        first = (len(steps) - means.shape[1]) // 2  # a mean stands at the middle of its lines
        shown, color = slice(first, first + means.shape[1]), f"C{arms.index(arm)}"
        seeds = f"{len(runs)} seed{'s' * (len(runs) > 1)}"
        for row, x in enumerate((steps, operations / 1e15)):
            axis = axes[row][sizes.index(size)]
            axis.plot(x[shown], means.mean(0), color=color, linewidth=1.3, label=f"{arm}, {seeds}")
            axis.fill_between(x[shown], means.min(0), means.max(0), color=color, alpha=0.2, linewidth=0)
            for step in changes(runs[0]["settings"]):  # above, the arms change at the same steps
                axis.axvline(np.interp(step, steps, x), color=color if row else "grey", linestyle=":", linewidth=1)
    for column, size in enumerate(sizes):
        axes[0][column].set_title(f"{size}, {results[0]['tokens']} tokens")
        for row, name in enumerate(("step", "training PFLOP")):
            axis = axes[row][column]
            axis.set(xlabel=name, ylabel=f"training loss, mean of {PLOTTED} log lines", yscale="log")
            decimal_loss_axis(axis)
            axis.legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def common_lines(runs: list[dict]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps that all runs logged, FLOPs up to them, and the losses of every run [runs, steps]. A run that was stopped
    has a line more."""
    curves = [{step: (operations, loss) for step, operations, loss in run["curve"]} for run in runs]
    steps = sorted(set.intersection(*map(set, curves)))
    return (np.array(steps), np.array([curves[0][step][0] for step in steps]),
            np.array([[curve[step][1] for step in steps] for curve in curves]))


def changes(settings: dict) -> list[int]:
    """The steps at which the sparsity is another than before."""
    made = Settings(**settings)
    return [step for step in range(1, made.steps) if made.sparsity_at(step) != made.sparsity_at(step - 1)]


def write(work: Path) -> None:
    results = read(work)
    if not results:
        raise SystemExit(f"[report] {work}: expected finished runs, got none")
    check_comparable(results)
    plot(results, work / "loss.png")
    text = table(results)
    (work / "table.md").write_text(text)
    without_curves = [{name: value for name, value in run.items() if name != "curve"} for run in results]
    (work / "results.json").write_text(json.dumps(without_curves, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m training.dit.report FOLDER")
    write(Path(sys.argv[1]))
