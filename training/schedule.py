"""What changes during training, and the three stages that made the shipped weights."""
from __future__ import annotations

import dataclasses
import math

SPARSITIES = (0.0, 0.5, 0.75, 0.875)  # that one set of weights serves
DECAY_LEVELS = (0.25, 0.5)  # on the way from dense to sparse


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

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        share = 0.5 + 0.5 * math.cos(math.pi * min(done, 1.0))
        return self.final_learning_rate + share * (self.learning_rate - self.final_learning_rate)

    def sparsity_at(self, step: int, u: float) -> float:
        """u in [0, 1) draws among the sparsities of the last phase."""
        done = step / self.steps
        if done < self.dense_share:
            return 0.0
        if done < self.dense_share + self.decay_share:
            return DECAY_LEVELS[int((done - self.dense_share) / self.decay_share * len(DECAY_LEVELS))]
        for level, weight in zip(SPARSITIES, self.mixed_weights):
            if u < weight:
                return level
            u -= weight
        return SPARSITIES[-1]

    def ema_decay_at(self, step: int) -> float:
        """Shorter at the start, so that the average forgets the random weights."""
        return min(self.ema_decay, (1 + step) / (10 + step))


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
}
