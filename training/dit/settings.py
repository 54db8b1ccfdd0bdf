"""What a run depends on. A run is resumed only with the settings that it was begun with."""
from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Size:
    """A transformer's extents. The width is heads * head_dim."""

    layers: int
    heads: int
    head_dim: int
    ffn: int
    text_dim: int = 128


SIZES = {
    "tiny": Size(2, 2, 16, 64, text_dim=16),  # for tests
    "toy": Size(7, 4, 64, 640),  # models/wan-toy
    "10m": Size(8, 4, 64, 1024),
    "60m": Size(13, 8, 64, 2048),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Lengths in pixels and frames; the grid of tokens is (frames, height, width) / patch."""

    size: str = "10m"
    attention: str = "vsa"  # or "dense"
    sparsity: float = 0.75  # what VSA leaves out at the end of its schedule
    dense_steps: int = 0  # VSA keeps all tiles for so many steps, then its sparsity rises
    decay_steps: int = 0  # in equal levels, over so many steps
    decay_levels: int = 4
    tile_shape: tuple[int, int, int] = (4, 4, 4)
    patch: tuple[int, int, int] = (2, 2, 2)
    frames: int = 16
    height: int = 64
    width: int = 64
    steps: int = 2000
    batch: int = 8  # over all processes
    micro_batch: int = 0  # videos at a time, per process; 0: all
    seed: int = 1
    learning_rate: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    noise_shift: float = 3.0  # see flow.shifted
    caption_dropout: float = 0.1

    def __post_init__(self):
        if self.size not in SIZES:
            raise ValueError(f"[train] size: expected one of {', '.join(SIZES)}, got {self.size}")
        if self.attention not in ("dense", "vsa"):
            raise ValueError(f"[train] attention: expected dense or vsa, got {self.attention}")
        for name, least in (("steps", 1), ("batch", 1), ("micro_batch", 0), ("seed", 0), ("warmup", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"[train] {name}: expected at least {least}, got {getattr(self, name)}")
        for name in ("patch", "tile_shape"):
            if len(getattr(self, name)) != 3 or min(getattr(self, name)) < 1:
                raise ValueError(f"[train] {name}: expected three edges of at least 1, got {getattr(self, name)}")
        if not 0 <= self.caption_dropout <= 1:
            raise ValueError(f"[train] caption_dropout: expected a share, got {self.caption_dropout}")
        if not 0 <= self.sparsity < 1:
            raise ValueError(f"[train] sparsity: expected at least 0 and below 1, got {self.sparsity}")
        if min(self.dense_steps, self.decay_steps) < 0 or self.decay_levels < 1:
            raise ValueError("[train] decay: expected steps of at least 0 and at least 1 level, got "
                             f"{self.dense_steps}, {self.decay_steps} and {self.decay_levels}")
        if self.attention == "vsa" and self.dense_steps + self.decay_steps >= self.steps:
            raise ValueError(f"[train] decay_steps: expected dense_steps + decay_steps below the {self.steps} steps, "
                             f"so that the sparsity reaches {self.sparsity}, got "
                             f"{self.dense_steps} + {self.decay_steps}")
        extents = (self.frames, self.height, self.width)
        if any(extent % edge for extent, edge in zip(extents, self.patch)):
            raise ValueError(f"[train] patch: expected edges that divide {extents}, got {self.patch}")

    @property
    def grid(self) -> tuple[int, int, int]:
        """The video in tokens."""
        return tuple(e // p for e, p in zip((self.frames, self.height, self.width), self.patch))

    @property
    def seq_len(self) -> int:
        return math.prod(self.grid)

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine to a hundredth."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.learning_rate * (0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * done)))

    def sparsity_at(self, step: int) -> float:
        """0, then decay_levels equal rises over decay_steps, the last of which is to the target itself.

        Levels are counted in integers, so no rounding can stop the rise below its target.
        """
        if self.attention == "dense" or step < self.dense_steps:
            return 0.0
        since = step - self.dense_steps
        level = self.decay_levels if since >= self.decay_steps else since * self.decay_levels // self.decay_steps
        return self.sparsity if level == self.decay_levels else self.sparsity * level / self.decay_levels
