"""log.jsonl of a run: a header, a line every few steps, and one with the loss at the end."""
from __future__ import annotations

import json
from pathlib import Path


def write(log, entry: dict) -> None:
    print(json.dumps(entry), file=log, flush=True)


def read(path: Path) -> list[dict]:
    """All lines; a last one that was cut off when its run was killed is left out."""
    lines = path.read_text().splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise ValueError(f"[train] {path}: expected json in line {number}, got {line}") from None
    return entries


def trim(path: Path, step: int) -> float:
    """Drops what a run logged after its checkpoint of that step, 0 for none, because it is trained again; and the
    loss at the end. Returns the seconds of training up to there."""
    entries = read(path) if step and path.exists() else []
    kept = [entry for entry in entries if "settings" in entry or entry.get("step", step + 1) <= step]
    partial = path.with_suffix(".partial")
    with partial.open("w") as log:
        for entry in kept:
            write(log, entry)
    partial.replace(path)
    return max((entry.get("seconds", 0.0) for entry in kept), default=0.0)
