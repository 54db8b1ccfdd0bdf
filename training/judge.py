"""Compares what the detector sees in clips with what their prompts asked for."""
from __future__ import annotations

from torch import Tensor

from training.detector import detect
from training.prompts import Prompt

ATTRIBUTES = ("colour", "shape", "motion", "background", "size")
CORE = ("colour", "shape", "motion")  # every prompt names these; "all correct" means these
GROUPS = {"seen": False, "held_out": True}


def judge(frames: Tensor, prompts: list[Prompt]) -> list[dict]:
    """One record a clip; frames uint8 [B, F, 64, 64, 3]."""
    records = []
    for found, prompt in zip(detect(frames), prompts, strict=True):
        records.append(
            {
                "id": prompt.id,
                "prompt": prompt.prompt,
                "held_out": prompt.held_out,
                "detected": found.value,
                "correct": {k: found.value[k] == v for k, v in prompt.attributes.items()},
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
    """Accuracies over all clips, over seen and over held-out combinations. `all` counts clips with
    colour, shape and motion right; `all_stated` those with everything the prompt names right."""
    groups = {
        name: _accuracies([r for r in records if r["held_out"] == held_out])
        for name, held_out in GROUPS.items()
    }
    return {"total": _accuracies(records), **groups}
