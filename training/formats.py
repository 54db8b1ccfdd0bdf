"""The lengths and sizes of video that the model is trained at."""
from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Format:
    """Extents of a video: frames, and pixels."""

    frames: int
    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.frames}x{self.height}x{self.width}"

    def grid(self, patch_size: tuple) -> tuple[int, int, int]:
        """The video in tokens."""
        return tuple(n // p for n, p in zip((self.frames, self.height, self.width), patch_size))

    def tokens(self, patch_size: tuple = (2, 4, 4)) -> int:
        return math.prod(self.grid(patch_size))


SMALL, WIDE, LONG = Format(16, 64, 64), Format(16, 128, 128), Format(32, 128, 128)
FORMATS = {str(f): f for f in (SMALL, WIDE, LONG)}


def parse(text: str) -> Format:
    """One of FORMATS by its name. Raises ValueError."""
    if text not in FORMATS:
        raise ValueError(f"[format] expected one of {', '.join(FORMATS)}, got {text}")
    return FORMATS[text]
