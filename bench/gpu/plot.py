#!/usr/bin/env python3
"""Draws a run of contestants.py: times of attention by the share of tiles kept, beside dense attention.

usage: plot.py RUN.jsonl[.gz] OUT.png [--shape s32768_h12_d128_t64]
"""

import argparse
import gzip
import json
from pathlib import Path

LABELS = {"dense_cudnn": "dense, cuDNN", "dense_flash3": "dense, FlashAttention-3",
          "flex_attention": "FlexAttention (fine stage alone)", "fine": "vsa, fine stage",
          "operator": "vsa, whole operator", "fastvideo": "FastVideo"}


def curves(lines, shape):
    """{what: [(kept %, ms), ...]} of the random lists of a shape, ascending; in the order of LABELS."""
    points = {}
    for row in map(json.loads, lines):
        name, _, rest = row.get("case", "").partition("/")
        if name != shape or not rest.endswith("/random") or row.get("what") not in LABELS or "median_ms" not in row:
            continue
        kept = float(rest.split("/")[0].removeprefix("kept"))
        points.setdefault(row["what"], []).append((kept, row["median_ms"]))
    return {what: sorted(points[what]) for what in LABELS if what in points}


def title(lines, shape):
    """The card, the commit and the shape of a run."""
    rows = [json.loads(line) for line in lines]
    about = next((row["header"] for row in rows if "header" in row), {})
    s = next((row["summary"] for row in rows if row.get("case", "").startswith(f"{shape}/") and "summary" in row), {})
    grid = "x".join(map(str, s.get("grid", ())))
    return (f"{about.get('card', '')}, commit {about.get('commit', '')}\n"
            f"grid {grid}, {s.get('heads')} heads of {s.get('head_dim')}, bf16, random lists")


def draw(found, heading, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), dpi=150, layout="constrained")
    for what, points in found.items():
        axes.plot(*zip(*points), marker="o", label=LABELS[what], linestyle="--" if what.startswith("dense") else "-")
    axes.set(xlabel="tiles kept, %", ylabel="milliseconds", title=heading)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", default="s32768_h12_d128_t64")
    parser.add_argument("--title", default="")
    options = parser.parse_args(arguments)
    with (gzip.open if options.run.suffix == ".gz" else open)(options.run, "rt") as file:
        lines = file.readlines()
    found = curves(lines, options.shape)
    if not found:
        parser.error(f"run: expected rows of {options.shape}/.../random, got none in {options.run}")
    draw(found, options.title or title(lines, options.shape), options.out)


if __name__ == "__main__":
    main()
