"""Writes a fixed list of evaluation prompts, with what their clips must show.

    python -m training.prompts --out out/prompts.json
    python -m training.prompts --format 16x128x128 --pairs 0.5 --out out/wide.json
`vsa generate --batch` reads such a file.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from training import clips, formats, grammar
from training.formats import SMALL, Format

SEED = 2026  # of the prompts that results are reported for; choices are made on prompts of another seed
COUNT = 512
HELD_OUT_SHARE = 0.4  # of the objects; at least a third of the prompts must name an unseen combination


@dataclasses.dataclass(frozen=True)
class Prompt:
    id: int
    name: str  # of the clip's folder
    prompt: str
    seed: int  # of the noise
    frames: int
    size: str  # "WIDTHxHEIGHT"
    held_out: bool  # training never saw the shape, colour and motion of some object together
    objects: list[dict[str, str]]  # of each object, only the attributes that the prompt names

    @property
    def format(self) -> Format:
        width, height = map(int, self.size.split("x"))
        return Format(self.frames, height, width)


def make_prompts(
    count: int = COUNT, seed: int = SEED, video: Format = SMALL, pair_share: float = 0.0
) -> list[Prompt]:
    drawn = clips.draw(count, seed, clips.EVALUATION, HELD_OUT_SHARE, video, pair_share)
    prompts = []
    for n, (caption, objects, stated) in enumerate(zip(drawn.captions, drawn.objects, drawn.stated)):
        unseen = any(grammar.is_held_out(o["shape"], o["colour"], o["motion"]) for o in objects)
        named = [{name: o[name] for name in names} for o, names in zip(objects, stated)]
        size = f"{video.width}x{video.height}"
        prompts.append(Prompt(n, f"{n:04d}", caption, seed + n, video.frames, size, unseen, named))
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
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--format", type=formats.parse, default=SMALL, help="FRAMESxHEIGHTxWIDTH")
    parser.add_argument("--pairs", type=float, default=0.0, help="share of the prompts that name two objects")
    args = parser.parse_args()
    write_prompts(args.out, make_prompts(args.count, args.seed, args.format, args.pairs))


if __name__ == "__main__":
    main()
