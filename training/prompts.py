"""Writes the fixed list of evaluation prompts, with what their clips must show.

    python -m training.prompts --out out/prompts.json
"""
from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from training import clips, grammar

SEED = 2026
COUNT = 512
HELD_OUT_SHARE = 0.4  # of the prompts; at least a third must name an unseen combination


@dataclasses.dataclass(frozen=True)
class Prompt:
    id: int
    name: str  # of the clip's folder
    prompt: str
    seed: int  # of the noise
    held_out: bool  # training never saw this shape, colour and motion together
    attributes: dict[str, str]  # only those that the prompt names


def make_prompts(count: int = COUNT, seed: int = SEED) -> list[Prompt]:
    drawn = clips.draw(count, seed, clips.EVALUATION, HELD_OUT_SHARE)
    prompts = []
    for n, (caption, clip, stated) in enumerate(zip(drawn.captions, drawn.attributes, drawn.stated)):
        unseen = grammar.is_held_out(clip["shape"], clip["colour"], clip["motion"])
        attributes = {name: clip[name] for name in stated}
        prompts.append(Prompt(n, f"{n:04d}", caption, seed + n, unseen, attributes))
    return prompts


def write_prompts(path: Path, prompts: list[Prompt]) -> None:
    lines = [json.dumps(dataclasses.asdict(prompt)) for prompt in prompts]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"prompts": [\n' + ",\n".join(lines) + "\n]}\n")


def read_prompts(path: Path) -> list[Prompt]:
    return [Prompt(**value) for value in json.loads(path.read_text())["prompts"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=COUNT)
    args = parser.parse_args()
    write_prompts(args.out, make_prompts(args.count))


if __name__ == "__main__":
    main()
