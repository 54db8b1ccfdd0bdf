#!/usr/bin/env python3
"""Turns the JSON lines of bench/gpu/contestants.py into the tables of docs/performance.md.

usage: table.py RUN.jsonl [--page docs/performance.md]
With --page the part of the page between its two markers is replaced; else the tables go to stdout.
"""

import argparse
import json
import sys
from pathlib import Path

BEGIN, END = "<!-- tables: bench/gpu/table.py -->", "<!-- end of tables -->"
# Measured: TMA brings 4x4x4 cubes at this rate from the L2 into shared memory of all multiprocessors.
L2_BYTES_PER_S = 8.77e12
COPY_BYTES_PER_S = 4.24e12  # measured: read and written
DENSE = {"dense_cudnn": "dense, cuDNN", "dense_flash3": "dense, FlashAttention-3"}
SPARSE = {"fine": "fine stage", "operator": "operator", "operator_list": "operator, list given",
          "flex_attention": "FlexAttention", "fastvideo": "FastVideo"}
STAGES = {"pool_qkv": "pool of q, k, v", "coarse": "coarse", "select": "select", "combine": "combine", "tile": "tile",
          "untile": "untile", "norm_rope_pool": "norm_rope_pool"}
BACKWARD_STAGES = {"pool_backward": "pool, one tensor", "coarse_backward": "coarse", "combine_backward": "combine"}
NOTES = """Milliseconds: median (interquartile range). `x` is the time of dense cuDNN in the same case over this one;
TFLOP/s count pairs of tokens that the list keeps. *Tensor* is the time of those operations at the rate of the
8192^3 product in the same case. *L2* is what is read if every query tile streams its own keys and values, and the
time of that at 8.77 TB/s; tiles that share them read less. `fine`, `operator` and dense read q, k and v as models
hold them (dense: [B,H,S,D]); FlexAttention (the fine stage alone) and FastVideo (its operator) get tile order, made
before the clock runs. Of the other stages, *bytes* is the time of what each has to read and write, once, at the 4.24 TB/s of a
copy. Backward counts 2.5 times the FLOP of forward and is compared with dense backward; dense and
FlexAttention run through PyTorch's autograd. *Shared*: of the tiles that two neighbouring query tiles keep, the share that both keep; at
head_dim 128 the fine kernel pairs 64-token tiles by their lists, and shares more."""


class Case:
    """The rows of one case, by contestant. Its product, power and clock are of each pass, forward and backward."""

    def __init__(self):
        self.rows, self.missing, self.left_out = {}, {}, None
        self.products, self.summaries = {}, {}
        self._names, self._product = [], None  # since the last summary

    def add(self, row):
        what = row["what"]
        if what == "gemm":
            self._product = row
            return
        if what in self.rows:
            raise ValueError(f"{row['case']}: expected one row of {what}, got two")
        self._names.append(what)
        self.rows[what] = row

    def end(self, summary):
        """All rows since the summary before were timed in turns, in one pass."""
        is_backward = any(name.endswith(("_backward", "_training")) for name in self._names)
        passes = "backward" if is_backward else "forward"
        self.products[passes], self.summaries[passes] = self._product, summary
        self._names, self._product = [], None

    def ms(self, what):
        return self.rows[what]["median_ms"] if what in self.rows else None

    def tensor_ms(self, flops, passes):
        gemm = self.products.get(passes)
        return flops / (gemm["flops"] / gemm["median_ms"]) if gemm else None


def read(lines):
    """The header and {case name: Case} in the order of the run."""
    header, cases = None, {}
    for line in lines:
        row = json.loads(line)
        if "header" in row:
            header = row["header"]
            continue
        case = cases.setdefault(row["case"], Case())
        if "summary" in row:
            case.end(row["summary"])
        elif "left_out" in row:
            case.left_out = row["left_out"]
        elif "median_ms" in row:
            case.add(row)
        else:
            case.missing[row["what"]] = f"absent: {row['absent']}" if "absent" in row else f"failed: {row['failed']}"
    if header is None:
        raise ValueError("no header line: expected the output of contestants.py")
    return header, cases


def tables(header, cases):
    """Markdown of a whole run."""
    shapes = {}
    for name, case in cases.items():
        shape, rest = name.split("/", 1)
        shapes.setdefault(shape, {})[rest] = case
    parts = [_about(header), NOTES]
    for shape, members in shapes.items():
        parts.append(f"### {shape}")
        shown = {rest: case for rest, case in members.items() if case.rows}
        if shown:
            summary = next((s for c in shown.values() for s in c.summaries.values() if s), {})
            if summary:
                grid, tile = ("x".join(map(str, summary[key])) for key in ("grid", "tile"))
                parts.append(f"Grid {grid}, tiles {tile} ({summary['num_tiles']} of them), {summary['heads']} heads, "
                             f"head_dim {summary['head_dim']}.")
            parts += _passes(shown)
        missing = _missing(members)
        if missing:
            parts.append(missing)
    return "\n\n".join(parts) + "\n"


def _about(header):
    fields = (("commit", "commit"), ("date", "date"), ("card", "card"), ("power limit", "power_limit"),
              ("driver", "driver"), ("CUDA", "cuda"), ("cuDNN", "cudnn"), ("PyTorch", "torch"))
    lines = ["| | |", "|---|---|"] + [f"| {title} | {header[key]} |" for title, key in fields if key in header]
    lines.append(f"| rounds | {header['repeats']}, over {header['sets']} sets of inputs |")
    return "\n".join(lines)


def _attention(members, suffix=""):
    """What runs attention: forward, or the rows whose names end in suffix."""
    names = {name + suffix: title for name, title in {**DENSE, **SPARSE}.items()}
    passes = "backward" if suffix else "forward"
    rows = []
    for rest, case in members.items():
        dense = case.ms("dense_cudnn" + suffix)
        for what, title in names.items():
            row = case.rows.get(what)
            if row is None:
                continue
            ms, l2_bytes = row["median_ms"], row["l2_bytes"]
            l2 = f"{l2_bytes * 1e-9:.2f} GB, {l2_bytes / L2_BYTES_PER_S * 1e3:.3f}" if l2_bytes else ""
            rows.append([rest.replace("/", ", "), title, _time(row), _number(row["flops"] / ms * 1e-9, 0),
                         _number(dense / ms if dense else None, 2), _number(case.tensor_ms(row["flops"], passes), 3),
                         l2, f"{row['relative_error']:.1e}", _number(row["workspace_mb"], 1)])
    head = ["case", "what", "ms", "TFLOP/s", "x", "tensor, ms", "L2, ms", "error", "workspace, MB"]
    return [_markdown(head, rows)] if rows else []


def _stages(members, stages, whole, fine, passes):
    """The small stages, and what is left of the operator `whole` without `fine`."""
    members = {rest: case for rest, case in members.items() if passes in case.summaries}
    stages = {what: title for what, title in stages.items() if any(what in case.rows for case in members.values())}
    if not stages:
        return []
    rows = []
    for rest, case in members.items():
        rest_ms = None
        if whole in case.rows and fine in case.rows:
            rest_ms = case.ms(whole) - case.ms(fine)
        summary = case.summaries[passes]
        rows.append([rest.replace("/", ", "), *(_with_bytes(case.rows.get(what)) for what in stages), _number(rest_ms, 3),
                     _time(case.products[passes]), _number(summary.get("shared"), 2), _range(summary.get("power_w")),
                     _range(summary.get("sm_mhz"))])
    return [_markdown(["case", *stages.values(), "operator less fine", "8192^3 product", "shared",
                       "W, least / median / most", "MHz, least / median / most"], rows)]


def _passes(members):
    """All tables of a shape: forward, backward, and both together."""
    parts = _attention(members) + _stages(members, STAGES, "operator", "fine", "forward")
    for suffix, title in (("_backward", "Backward alone."), ("_training", "Forward and backward.")):
        table = _attention(members, suffix)
        parts += [title, *table] if table else []
    return parts + _stages(members, BACKWARD_STAGES, "operator_backward", "fine_backward", "backward")


def _missing(members):
    why = {}
    for rest, case in members.items():
        if case.left_out:
            why.setdefault(("case", f"left out: {case.left_out}"), []).append(rest)
        for what, reason in case.missing.items():
            why.setdefault((what, reason), []).append(rest)
    lines = [f"- {what} {reason}" + ("" if len(names) == len(members) else f" ({', '.join(names)})")
             for (what, reason), names in why.items()]
    return "\n".join(lines)


def _markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _time(row):
    return "" if row is None else f"{row['median_ms']:.3f} ({row['iqr_ms']:.3f})"


def _with_bytes(row):
    moved = None if row is None else row.get("bytes")
    return _time(row) + (f", bytes {moved / COPY_BYTES_PER_S * 1e3:.3f}" if moved else "")


def _number(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def _range(values):
    return "" if not values else f"{values[0]:.0f} / {values[1]:.0f} / {values[2]:.0f}"


def put_into(page, text):
    """The page with what is between its markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected the markers {BEGIN} and {END} in the page")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    try:
        text = tables(*read(options.run.read_text().splitlines()))
        if options.page:
            options.page.write_text(put_into(options.page.read_text(), text))
        else:
            sys.stdout.write(text)
    except (OSError, ValueError, KeyError) as e:
        print(f"table.py: error: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
