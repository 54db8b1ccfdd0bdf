#!/usr/bin/env python3
"""Turns a run of bench/gpu/contestants.py into the section of docs/performance.md about its card.

usage: table.py RUN.jsonl[.gz] [--cases PATTERN] [--page docs/performance.md] [--readme README.md]
It shows the cases that match PATTERN; without it those of the page, or all where the run has none of these.
--page replaces the card's section of the page, or appends it; --readme replaces the summary there; without either the
section goes to stdout. A section shows one run: rows of another commit, card or version beside them are an error.
"""

import argparse
import gzip
import json
import math
import os
import re
import sys
import textwrap
from pathlib import Path

import arguments

END = "<!-- end of card -->"
README = ("<!-- speed: written by bench/gpu/table.py -->", "<!-- end of speed -->")
COPY_BYTES_PER_S = {"NVIDIA H200": 4.24e12}  # measured: bytes read and written by a copy from and to device memory
STAGES = ("pool_qkv", "coarse", "select", "combine", "tile", "untile", "norm_rope_pool")
FORWARD = {"dense_flash3": "FA3", "dense_cudnn": "cuDNN", "fastvideo": "FastVideo", "flex_attention": "FlexAttention",
           "fine": "vsa fine", "operator": "vsa operator"}
BACKWARD = {"dense_flash3_backward": "FA3", "dense_cudnn_backward": "cuDNN", "fine_backward": "vsa fine",
            "operator_backward": "vsa operator"}
TRAINING = {"dense_flash3_training": "FA3, both", "dense_cudnn_training": "cuDNN, both",
            "operator_training": "vsa operator, both"}
NAMES = {"dense_flash3": "FA3", "dense_cudnn": "cuDNN"}
PACKAGES = {"dense_flash3": "FlashAttention-3", "dense_cudnn": "cuDNN", "fastvideo": "FastVideo",
            "flex_attention": "FlexAttention"}
PASSES = {"_backward": ", backward", "_training": ", forward and backward"}
OURS = ("fine", "operator", "operator_list", "fine_backward", "operator_backward", "operator_training")


class Case:
    """The rows of one case, by contestant, and what was noted about its passes."""

    def __init__(self):
        self.rows, self.missing, self.summaries, self.left_out = {}, {}, [], None

    def add(self, row):
        if row["what"] in self.rows and row["what"] != "gemm":  # the product is timed in each pass
            raise ValueError(f"{row['case']}: expected one row of {row['what']}, got two")
        self.rows[row["what"]] = row

    def ms(self, what):
        return self.rows[what]["median_ms"] if what in self.rows else None


def read(lines):
    """The header and {case name: Case} in the order of the run."""
    header, cases = None, {}
    for line in lines:
        row = json.loads(line)
        if "header" in row:
            if header is not None:
                raise ValueError("expected the rows of one run, got a second header line")
            header = row["header"]
            continue
        case = cases.setdefault(row["case"], Case())
        if "summary" in row:
            case.summaries.append(row["summary"])
        elif "left_out" in row:
            case.left_out = row["left_out"]
        elif "median_ms" in row:
            case.add(row)
        else:
            case.missing[row["what"]] = _why(row)
    if header is None:
        raise ValueError("no header line: expected the output of contestants.py")
    return header, cases


def section(header, cases, rows):
    """Markdown about one card; rows: where its JSON lines lie, as the page links to them."""
    shown = {name: case for name, case in cases.items() if case.rows and case.summaries}
    parts = [f"## {header.get('card', 'no GPU')}", _about(header, shown, rows)]
    dense = _dense(shown)
    forward = _table(shown, FORWARD, [("operator", dense)])
    if forward:
        parts += [f"Forward, milliseconds; `x`: the operator is so many times as fast as {NAMES[dense]}.", forward]
    dense = _dense(shown, "_backward")
    backward = _table(shown, {**BACKWARD, **TRAINING}, [("operator_backward", f"{dense}_backward"),
                                                         ("operator_training", f"{dense}_training")])
    if backward:
        parts += ["Backward, milliseconds; *both* is forward and backward; `x`: the operator is so many times as fast as "
                  f"{NAMES[dense]}.", backward]
    stages = _stages(header, shown)
    if stages:
        parts += ["The stages around the fine stage, milliseconds; in brackets the time a copy takes to move the bytes "
                  "that the stage must read and write.", stages]
    missing = _missing(cases)
    return "\n\n".join(parts + ([missing] if missing else [])) + "\n\n"


def _dense(cases, suffix=""):
    """What computes dense attention, for ratios: FlashAttention-3 where any case has it."""
    return "dense_flash3" if any(f"dense_flash3{suffix}" in case.rows for case in cases.values()) else "dense_cudnn"


def _about(header, cases, rows):
    """One paragraph: what was measured, on what, under which load."""
    fields = (("commit", "commit"), ("date", "date"), ("driver", "driver"), ("CUDA", "cuda"), ("cuDNN", "cudnn"),
              ("PyTorch", "torch"), ("power limit", "power_limit"))
    about = ", ".join(f"{title} {header[key]}" for title, key in fields if key in header)
    summaries = [s for case in cases.values() for s in case.summaries]
    load = [f"{title} {min(v):.{digits}f} to {max(v):.{digits}f} {unit}" for title, unit, digits, v in (
        ("board power", "W", 0, [s["power_w"][1] for s in summaries if s.get("power_w")]),
        ("SM clock", "GHz", 2, [s["sm_mhz"][1] / 1e3 for s in summaries if s.get("sm_mhz")])) if v]
    errors = [case.rows[what]["relative_error"] for case in cases.values() for what in OURS if what in case.rows]
    text = f"{about}. Medians of {header['repeats']} rounds over {header['sets']} sets of inputs; bf16, raster order."
    if errors:
        text += f" Largest relative L2 error of this library against fp64: {max(errors):.1e}."
    if load:
        text += f" Medians of the cases: {', '.join(load)}."
    text += f" All rows: [{os.path.basename(rows)}]({rows})."
    return textwrap.fill(text[0].upper() + text[1:], 118, break_long_words=False, break_on_hyphens=False)


def _shape(case):
    s = case.summaries[0]
    grid, tile = ("x".join(map(str, s[key])) for key in ("grid", "tile"))
    return f"{grid}, {tile}, {s['heads']} x {s['head_dim']}"


def _pairs(cases):
    """Cases that differ in the kind of their lists alone: {(shape, "12.5 %"): [of random lists, of local lists]}."""
    pairs = {}
    for name, case in cases.items():
        shape, kept, kind = name.split("/")
        pairs.setdefault((shape, f"{kept.removeprefix('kept')} %"), {})[kind] = case
    return {(shape, kept if len(both) > 1 else f"{kept}, {min(both)}"): [both[kind] for kind in sorted(both, reverse=True)]
            for (shape, kept), both in pairs.items()}


def _figures(pair, what):
    """The median times of a contestant, to three digits."""
    return _joined([f"{case.ms(what):#.3g}".rstrip(".") if case.ms(what) else "-" for case in pair])


def _ratios(pair, ours, dense, digits):
    """How many times as fast as dense attention."""
    return _joined([f"{case.ms(dense) / case.ms(ours):.{digits}f}" if case.ms(ours) and case.ms(dense) else "-"
                    for case in pair])


def _joined(figures):
    return "" if set(figures) == {"-"} else ", ".join(figures)


def _table(cases, columns, ratios):
    """A line a shape and share: times in the columns that any case has; behind the first of a ratio's pair the ratio."""
    columns = {what: title for what, title in columns.items() if any(what in case.rows for case in cases.values())}
    sped = {ours: dense for ours, dense in ratios if ours in columns and dense in columns}
    if not any(what in OURS for what in columns):
        return ""
    head = ["grid, tile, heads x head_dim", "kept"]
    for what, title in columns.items():
        head += [title, "x"] if what in sped else [title]
    lines = []
    for (_, kept), pair in _pairs(cases).items():
        if not any(what in case.rows for what in columns for case in pair):
            continue
        line = [_shape(pair[0]), kept]
        for what in columns:
            line.append(_figures(pair, what))
            if what in sped:
                line.append(_ratios(pair, what, sped[what], 2))
        lines.append(line)
    return _markdown(head, lines)


def _stages(header, cases):
    """Stages down, shapes across: each shape by its case that keeps 12.5 % of random tiles, or else its first."""
    by_shape = {}
    for name, case in cases.items():
        shape = name.split("/")[0]
        if any(what in case.rows for what in STAGES) and (shape not in by_shape or name.endswith("kept12.5/random")):
            by_shape[shape] = case
    if not by_shape:
        return ""
    rate = COPY_BYTES_PER_S.get(header.get("card"))

    def cell(row):
        if row is None:
            return ""
        floor = f" ({row['bytes'] / rate * 1e3:.3f})" if row.get("bytes") and rate else ""
        return _number(row["median_ms"], 3) + floor

    lines = [[what, *(cell(case.rows.get(what)) for case in by_shape.values())]
             for what in STAGES if any(what in case.rows for case in by_shape.values())]
    return _markdown(["stage", *(_shape(case) for case in by_shape.values())], lines)


def _missing(cases):
    """A line for each contestant and case that has no time, and why."""
    why = {}
    for name, case in cases.items():
        if case.left_out:
            why.setdefault(("cases", f"left out, {case.left_out}"), []).append(name)
        for what, reason in case.missing.items():
            why.setdefault((what, reason), []).append(name)
    return "\n".join(f"- {_title(what)}: {reason}" + ("" if len(names) == len(cases) else f" ({', '.join(names)})")
                     for (what, reason), names in why.items())


def _title(what):
    """A contestant in words: "FlashAttention-3, backward"."""
    for suffix, words in PASSES.items():
        if what.endswith(suffix):
            return _title(what.removesuffix(suffix)) + words
    return PACKAGES.get(what, what)


def _why(row):
    """Why a contestant has no time, in words where Python's are not for the reader of a page."""
    if "absent" not in row:
        return f"failed, {row['failed']}"
    return "not installed" if row["absent"].startswith("No module named") else f"not available, {row['absent']}"


def _markdown(head, rows):
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def _number(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def summary(header, cases):
    """A few lines: 64-token tiles, heads of 128, 12.5 % kept. Of two figures the second is of local lists."""
    backward = _dense(cases, "_backward")
    lines = []
    for name, case in cases.items():
        if name.endswith("_d128_t64/kept12.5/random"):
            both, s = [case, cases.get(name.replace("/random", "/local"), Case())], case.summaries[0]
            lines.append([f"{math.prod(s['grid'])} ({'x'.join(map(str, s['grid']))}), {s['heads']}",
                          *(_figures(both, what) for what in ("dense_flash3", "fastvideo", "operator")),
                          _ratios(both, "operator", "dense_flash3", 1),
                          _ratios(both, "operator_backward", f"{backward}_backward", 1)])
    head = ["tokens, heads of 128", "dense, FlashAttention-3", "FastVideo", "vsa operator", "times as fast as dense",
            f"backward, times as fast as {NAMES[backward]}"]
    if not any(line[-1] for line in lines):
        head, lines = head[:-1], [line[:-1] for line in lines]
    return f"{header.get('card')}, commit {header['commit']}, milliseconds:\n\n{_markdown(head, lines)}\n\n"


def put_between(page, begin, end, text):
    before, found, rest = page.partition(f"{begin}\n")
    _, closed, after = rest.partition(f"{end}\n")
    if not found or not closed:
        raise ValueError(f"expected {begin} and {end} in the page")
    return f"{before}{begin}\n{text}{end}\n{after}"


def put_into(page, card, text):
    """The page with the section of this card replaced, or put behind the last card's, or at the end."""
    begin = f"<!-- card {card}: written by bench/gpu/table.py -->"
    if f"{begin}\n" not in page:
        before, found, after = page.rpartition(f"{END}\n")
        before, after = (before + found, after) if found else (page, "")
        return f"{before.rstrip()}\n\n{begin}\n{text}{END}\n{after}"
    return put_between(page, begin, END, text)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--cases", type=arguments.pattern, help="regular expression that case names match")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--readme", type=Path)
    options = parser.parse_args(argv)
    try:
        opened = gzip.open if options.run.suffix == ".gz" else open
        with opened(options.run, "rt") as lines:
            header, cases = read(lines)
        wanted = options.cases or re.compile(arguments.PAGE["cases"])
        chosen = {name: case for name, case in cases.items() if wanted.search(name)}
        if not chosen and options.cases:
            raise ValueError(f"--cases: {options.cases.pattern} matches none of {', '.join(cases)}")
        rows = os.path.relpath(options.run, options.page.parent if options.page else ".")
        text = section(header, chosen or cases, rows)
        if options.page:
            options.page.write_text(put_into(options.page.read_text(), header.get("card"), text))
        if options.readme:
            options.readme.write_text(put_between(options.readme.read_text(), *README, summary(header, cases)))
        if not options.page and not options.readme:
            sys.stdout.write(text)
    except (OSError, ValueError, KeyError) as e:
        print(f"table.py: error: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
