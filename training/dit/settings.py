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


def _field(default, help: str):
    return dataclasses.field(default=default, metadata={"help": help})


@dataclasses.dataclass(frozen=True)
class Settings:
    """Lengths in pixels and frames; the grid of tokens is (frames, height, width) / patch."""

    size: str = _field("10m", "of the transformer")
    attention: str = _field("vsa", "dense: over all tokens, without gates")
    sparsity: float = _field(0.75, "what VSA leaves out at the end of its schedule, as a share of the tiles")
    dense_steps: int = _field(0, "VSA keeps all tiles for so many steps at the start")
    decay_steps: int = _field(0, "then its sparsity rises over so many steps")
    decay_levels: int = _field(4, "in so many equal parts of them: it is still 0 in the first, and the target after "
                                  "the last")
    tile_shape: tuple[int, int, int] = _field((4, 4, 4), "VSA's tiles, in tokens: frames,height,width")
    patch: tuple[int, int, int] = _field((2, 2, 2), "pixels of a token: frames,height,width")
    frames: int = _field(16, "of a video")
    height: int = _field(64, "of a video in pixels")
    width: int = _field(64, "of a video in pixels")
    steps: int = _field(2000, "of the optimizer")
    batch: int = _field(8, "videos in a step, over all processes")
    micro_batch: int = _field(0, "videos at a time, per process; 0: all")
    seed: int = _field(1, "of the weights, the videos and the noise")
    learning_rate: float = _field(1e-3, "at its highest, after the warm-up; then a cosine to a hundredth of it")
    warmup: int = _field(100, "steps in which the learning rate rises")
    weight_decay: float = _field(0.01, "of AdamW")
    max_gradient_norm: float = _field(1.0, "longer gradients are scaled to it")
    noise_shift: float = _field(3.0, "of the noise levels: above 1, more of the strong ones")  # see flow.shifted
    caption_dropout: float = _field(0.1, "share of the videos whose caption is left out")

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
