"""Compares what the detector sees in clips with what their prompts asked for."""
from __future__ import annotations

import itertools

from torch import Tensor

from training.detector import NONE, Scene, detect
from training.prompts import Prompt

ATTRIBUTES = ("colour", "shape", "motion", "background", "size")
CORE = ("colour", "shape", "motion")  # every prompt names these of every object; "all" means these
GROUPS = {"seen": False, "held_out": True}


def compare(scene: Scene, wanted: list[dict[str, str]]) -> list[dict[str, bool]]:
    """What is right of each wanted object: of all ways to tell which is which, the one that leaves most right.
    Where a clip shows another number of objects, nothing but the background can be right."""
    missing = dict.fromkeys(ATTRIBUTES, NONE)
    shown = [{**missing, **found.value} for found in scene.objects]
    if len(shown) != len(wanted):
        shown = [missing] * len(wanted)
    shown = [{**one, "background": scene.background} for one in shown]
    ways = (
        [{name: found[name] == value for name, value in named.items()} for found, named in zip(way, wanted)]
        for way in itertools.permutations(shown)
    )
    return max(ways, key=lambda way: sum(sum(right.values()) for right in way))


def judge(frames: Tensor, prompts: list[Prompt]) -> list[dict]:
    """One record a clip; frames uint8 [B, F, H, W, 3]. An attribute is right if it is for every object."""
    records = []
    for scene, prompt in zip(detect(frames), prompts, strict=True):
        right = compare(scene, prompt.objects)
        names = {name for one in right for name in one}
        records.append(
            {
                "id": prompt.id,
                "prompt": prompt.prompt,
                "held_out": prompt.held_out,
                "objects": len(prompt.objects),
                "detected": {"background": scene.background, "objects": [found.value for found in scene.objects]},
                "correct": {name: all(one.get(name, True) for one in right) for name in ATTRIBUTES if name in names},
            }
        )
    return records


def _share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def _accuracies(records: list[dict]) -> dict:
    shares = {"clips": len(records)}
    for name in ATTRIBUTES:
        shares[name] = _share([r["correct"][name] for r in records if name in r["correct"]])
    shares["all"] = _share([all(r["correct"][name] for name in CORE) for r in records])
    shares["all_stated"] = _share([all(r["correct"].values()) for r in records])
    return shares


def summary(records: list[dict]) -> dict:
    """Accuracies over all clips, over seen and over held-out combinations, and over clips of one and of two objects.
    `all` counts clips with colour, shape and motion of every object right; `all_stated` those with everything the
    prompt names right."""
    groups = {
        name: _accuracies([r for r in records if r["held_out"] == held_out])
        for name, held_out in GROUPS.items()
    }
    counts = {
        name: _accuracies([r for r in records if r["objects"] == count])
        for name, count in (("one_object", 1), ("two_objects", 2))
    }
    return {"total": _accuracies(records), **groups, **counts}
