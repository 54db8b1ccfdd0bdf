"""What changes during training, and the stages that train.py knows."""
from __future__ import annotations

import dataclasses
import math

from training.formats import LONG, SMALL, WIDE, Format

SPARSITIES = (0.0, 0.5, 0.75, 0.875)  # that one set of weights serves
DECAY_LEVELS = (0.25, 0.5)  # on the way from dense to sparse


@dataclasses.dataclass(frozen=True)
class Part:
    """What the steps that show one format have in common."""

    video: Format
    share: float  # of the steps
    sparsities: tuple[tuple[float, float], ...]  # (sparsity, chance)
    pair_share: float = 0.0  # of the clips; these have two objects
    weight: float = 1.0  # of the gradients
    noise_shift: float | None = None  # in the place of the schedule's

    def sparsity_at(self, u: float) -> float:
        """u in [0, 1) draws."""
        return _drawn(self.sparsities, u)


def _drawn(weighted: tuple, u: float):
    """The value among (value, chance) that u in [0, 1) falls on."""
    for value, chance in weighted:
        if u < chance:
            return value
        u -= chance
    return weighted[-1][0]


@dataclasses.dataclass(frozen=True)
class Schedule:
    steps: int
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-5
    warmup: int = 300
    ema_decay: float = 0.999
    noise_shift: float = 2.0  # see flow.shifted; more shift, more training in strong noise
    dense_share: float = 0.45  # of the steps, at the start
    decay_share: float = 0.12  # then the sparsity rises
    mixed_weights: tuple = (0.3, 0.15, 0.4, 0.15)  # chances of SPARSITIES in the rest
    parts: tuple[Part, ...] = ()  # formats in turn, each with its own sparsities; none: SMALL with the above
    batch: int = 128  # clips of SMALL; of a larger format as many as have no more tokens
    target: str = "clip"  # or "mean": that of all clips which the noisy one may come from, see posterior.py
    optimizer: str = "adamw"  # or "muon": for the matrices of all blocks, see muon.py

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        share = 0.5 + 0.5 * math.cos(math.pi * min(done, 1.0))
        return self.final_learning_rate + share * (self.learning_rate - self.final_learning_rate)

    def sparsity_at(self, step: int, u: float) -> float:
        """Without parts: u in [0, 1) draws among the sparsities of the last phase."""
        done = step / self.steps
        if done < self.dense_share:
            return 0.0
        if done < self.dense_share + self.decay_share:
            return DECAY_LEVELS[int((done - self.dense_share) / self.decay_share * len(DECAY_LEVELS))]
        return _drawn(tuple(zip(SPARSITIES, self.mixed_weights)), u)

    def part_at(self, u: float) -> Part:
        """The part that u in [0, 1) draws."""
        if not self.parts:
            return Part(SMALL, 1.0, ())
        return _drawn(tuple((part, part.share) for part in self.parts), u)

    def ema_decay_at(self, step: int) -> float:
        """Shorter at the start, so that the average forgets the random weights."""
        return min(self.ema_decay, (1 + step) / (10 + step))


# Three formats, a step of each with as many tokens. The sparsities that matter are the high ones, for which the
# longer formats have tiles enough; a little dense attention keeps that function, too. Objects cover a smaller share of a
# larger picture, and its loss is smaller by as much: hence the weights.
_FORMATS = (
    Part(SMALL, 0.22, ((0.0, 0.12), (0.75, 0.38), (0.875, 0.5)), pair_share=0.4),
    Part(WIDE, 0.46, ((0.0, 0.1), (0.75, 0.2), (0.875, 0.5), (0.9, 0.2)), pair_share=0.55, weight=2.5),
    Part(LONG, 0.32, ((0.0, 0.04), (0.75, 0.11), (0.875, 0.3), (0.9, 0.55)), pair_share=0.55, weight=2.5),
)

_ONE_OBJECT = (
    Part(SMALL, 0.33, ((0.0, 0.12), (0.75, 0.48), (0.875, 0.4))),
    Part(WIDE, 0.42, ((0.0, 0.1), (0.75, 0.15), (0.875, 0.55), (0.9, 0.2)), weight=2.5),
    Part(LONG, 0.25, ((0.0, 0.04), (0.75, 0.1), (0.875, 0.3), (0.9, 0.56)), weight=2.5),
)

# Against the mean of what the noisy clips may come from the loss is error of the model alone, which is largest where
# places are decided: at levels that rise with the number of pixels, since objects do not grow with the frame.
_BY_MEANS = (
    Part(SMALL, 0.24, ((0.0, 0.08), (0.75, 0.37), (0.875, 0.55))),
    Part(WIDE, 0.36, ((0.0, 0.05), (0.75, 0.1), (0.875, 0.6), (0.9, 0.25)), weight=3.0, noise_shift=14.0),
    Part(LONG, 0.40, ((0.0, 0.02), (0.75, 0.06), (0.875, 0.5), (0.9, 0.42)), weight=3.0, noise_shift=18.0),
)

# The seventh gave the small format too few steps to keep what it knew.
_MORE_SMALL = tuple(dataclasses.replace(part, share=share) for part, share in zip(_BY_MEANS, (0.35, 0.29, 0.36)))

STAGES = {
    "first": Schedule(steps=10400),
    # An object covers a tenth of 65,536 pixels and stands out of noise far stronger than itself: its
    # place is decided at levels above 0.9, of which the first stage saw few.
    "second": Schedule(
        steps=2300,
        learning_rate=7e-4,
        warmup=60,
        ema_decay=0.99,
        noise_shift=8.0,
        dense_share=0.0,
        decay_share=0.0,
        mixed_weights=(0.3, 0.0, 0.55, 0.15),
    ),
    # The same for longer, and most of it at the sparsity that ships.
    "third": Schedule(
        steps=15000,
        learning_rate=1e-3,
        warmup=200,
        noise_shift=8.0,
        dense_share=0.0,
        decay_share=0.0,
        mixed_weights=(0.2, 0.0, 0.65, 0.15),
    ),
    # Larger videos, from weights that know one object in small ones. Its learning rate ends high: a sixth goes on.
    "fifth": Schedule(
        steps=4100, learning_rate=8e-4, final_learning_rate=3e-4, warmup=150, noise_shift=8.0, parts=_FORMATS
    ),
    # Of one object alone: after the fifth one clip in twenty-five had two right, and three in four had one right.
    "sixth": Schedule(
        steps=4700, learning_rate=6e-4, warmup=60, ema_decay=0.998, noise_shift=8.0, parts=_ONE_OBJECT
    ),
    # Fewer tokens a step: of a gradient with less noise, more steps are worth more than larger ones.
    "seventh": Schedule(
        steps=5600, learning_rate=1e-3, final_learning_rate=5e-6, warmup=60, ema_decay=0.998, noise_shift=8.0,
        parts=_BY_MEANS, batch=96, target="mean", optimizer="muon",
    ),
}
STAGES["eighth"] = dataclasses.replace(STAGES["seventh"], learning_rate=6e-4, parts=_MORE_SMALL, optimizer="adamw")
