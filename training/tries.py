"""Which optimizer and learning rate lower the loss most from given weights, found in a few steps."""
from __future__ import annotations

import argparse
import copy

from training.trainer import Trainer

STEPS = 80  # of a try: up, and down to almost nothing, as in a whole stage
LAST = 30  # of which the losses count


def parse(text: str) -> list[tuple[str, float]]:
    """OPTIMIZER:RATE,... as on the command line."""
    tries = [part.split(":") for part in text.split(",")]
    if not all(len(one) == 2 and one[0] in ("adamw", "muon") for one in tries):
        raise argparse.ArgumentTypeError(f"expected adamw:RATE or muon:RATE, separated by commas, got {text}")
    return [(name, float(rate)) for name, rate in tries]


def run(trainer: Trainer, tries: list[tuple[str, float]], steps: int = STEPS, last: int = LAST) -> list[dict]:
    """Every try begins with the trainer's weights and takes the same clips. Afterwards the trainer has these weights
    again, and the best try's optimizer and learning rate."""
    schedule, weights = trainer.settings.schedule, copy.deepcopy(trainer.networks.state_dict())
    found = []
    for optimizer, rate in tries:
        changes = {"steps": steps, "learning_rate": rate, "final_learning_rate": rate / 50, "warmup": steps // 5}
        trainer.restart(optimizer=optimizer, **changes)
        trainer.networks.load_state_dict(weights)
        losses = [trainer.train_step().loss * trainer.shown_at(step).weight for step in range(steps)]
        found.append({"optimizer": optimizer, "learning_rate": rate, "loss": sum(losses[-last:]).item() / last})
    found.sort(key=lambda one: one["loss"] if one["loss"] < float("inf") else float("inf"))
    best, ratio = found[0], found[0]["learning_rate"] / schedule.learning_rate
    final = schedule.final_learning_rate * ratio
    trainer.restart(**vars(schedule) | {"optimizer": best["optimizer"], "learning_rate": best["learning_rate"],
                                        "final_learning_rate": final})
    for networks in (trainer.networks, trainer.averaged):
        networks.load_state_dict(weights)
    return found
