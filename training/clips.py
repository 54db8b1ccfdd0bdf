"""Captioned clips from seeds: one anti-aliased object that stands or moves over a plain background.

What a clip shows is drawn on the CPU from a counter-based generator, so a seed names the same clips
on every machine; the pixels are then computed on any device.
"""
from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import torch
from torch import Tensor

from training import grammar

NUM_FRAMES, SIZE_PX = 16, 64
TRAIN, EVALUATION = 0, 1  # second word of the generator's key, so their clips are disjoint
SPEED_PX = (0.6, 1.4)  # per frame: at least 9 pixels in a clip, and a large object stays in frame
MARGIN_PX = 1.0  # between an object and the edge of the frame


@dataclasses.dataclass(frozen=True)
class Clips:
    """What B clips show. Arrays are fp32; positions in pixels (x, y), pixel centres are integers."""

    attributes: list[dict]
    captions: list[str]
    stated: list[list[str]]  # the attributes that each caption names
    shape: np.ndarray  # [B] int64, index in grammar.SHAPES
    radius: np.ndarray  # [B]
    start: np.ndarray  # [B, 2] centre in frame 0
    velocity: np.ndarray  # [B, 2] per frame
    colour: np.ndarray  # [B, 3] in 0-255
    background: np.ndarray  # [B, 3]

    def part(self, which: slice) -> Clips:
        """Some of the clips."""
        values = (getattr(self, field.name)[which] for field in dataclasses.fields(self))
        return Clips(*values)


def seed_of(*key: int) -> int:
    """A seed of two numbers, as a hash: other numbers give another seed."""
    return int(np.random.Philox(key=list(key)).random_raw()) >> 1


def triples(held_out: bool) -> list[tuple]:
    """(shape, colour, motion) of training, or those held out from it."""
    every = itertools.product(grammar.SHAPES, grammar.COLOURS, grammar.MOTIONS)
    return [triple for triple in every if grammar.is_held_out(*triple) == held_out]


def draw(batch: int, seed: int, split: int, held_out_share: float = 0.0) -> Clips:
    """B clips. `held_out_share` is the chance of a combination that training never sees."""
    rng = np.random.Generator(np.random.Philox(key=[seed, split]))
    uniform = rng.random((batch, 12))
    attributes, captions, stated = [], [], []
    numbers = {name: [] for name in ("shape", "radius", "start", "velocity", "colour", "background")}
    seen, unseen = triples(False), triples(True)

    def pick(values, u: float):
        values = list(values)
        return values[int(u * len(values))]

    for u in uniform:
        shape, colour, motion = pick(unseen if u[0] < held_out_share else seen, u[1])
        background, size = pick(grammar.BACKGROUNDS, u[2]), pick(grammar.SIZES, u[3])
        low, high = grammar.SIZES[size]
        radius = low + u[4] * (high - low)
        speed = SPEED_PX[0] + u[5] * (SPEED_PX[1] - SPEED_PX[0])
        velocity = speed * np.array(grammar.MOTIONS[motion])
        # The whole path lies in the frame: start is uniform in what that leaves.
        travel = velocity * (NUM_FRAMES - 1)
        reach = MARGIN_PX + radius * EXTENT[shape]
        lowest, highest = reach - np.minimum(travel, 0), SIZE_PX - 1 - reach - np.maximum(travel, 0)
        clip = dict(shape=shape, colour=colour, motion=motion, background=background, size=size)
        template = int(u[8] * len(grammar.TEMPLATES))
        attributes.append(clip)
        captions.append(grammar.caption(template, int(u[9] * len(grammar.MOVING_PHRASES)), clip))
        stated.append(grammar.stated(template))
        numbers["shape"].append(grammar.SHAPES.index(shape))
        numbers["radius"].append(radius)
        numbers["start"].append(lowest + u[6:8] * (highest - lowest))
        numbers["velocity"].append(velocity)
        numbers["colour"].append(grammar.COLOURS[colour])
        numbers["background"].append(grammar.BACKGROUNDS[background])
    arrays = {name: np.array(value, np.float32) for name, value in numbers.items()}
    arrays["shape"] = arrays["shape"].astype(np.int64)
    return Clips(attributes, captions, stated, **arrays)


# Signed distances in units of the radius, negative inside. Centroids are at the origin.


def _folded_edge(x: Tensor, y: Tensor, points: int, tip: float, valley: float) -> Tensor:
    """Distance to the edge of a star with `points` tips at radius `tip`, the first one upwards, and
    inner corners at radius `valley`. Folding the angle leaves one edge to measure."""
    sector = math.pi / points
    rho, angle = torch.hypot(x, y), torch.atan2(x, -y)
    folded = ((angle / (2 * sector)).round() * (2 * sector) - angle).abs()
    px, py = rho * folded.cos(), rho * folded.sin()
    edge_x, edge_y = valley * math.cos(sector) - tip, valley * math.sin(sector)
    length = math.hypot(edge_x, edge_y)
    return ((px - tip) * edge_y - py * edge_x) / length


def _bar(x: Tensor, y: Tensor, half_width: float, half_height: float) -> Tensor:
    return torch.maximum(x.abs() - half_width, y.abs() - half_height)


_DISTANCE = {
    "circle": lambda x, y: torch.hypot(x, y) - 1.0,
    "square": lambda x, y: _bar(x, y, 0.88, 0.88),
    "triangle": lambda x, y: _folded_edge(x, y, 3, 1.25, 0.625),
    "star": lambda x, y: _folded_edge(x, y, 5, 1.2, 0.54),
    "ring": lambda x, y: (torch.hypot(x, y) - 0.78).abs() - 0.24,
    "cross": lambda x, y: torch.minimum(_bar(x, y, 1.0, 0.34), _bar(x, y, 0.34, 1.0)),
}
# Largest distance from the centre along an axis, in radii.
EXTENT = {"circle": 1.0, "square": 0.88, "triangle": 1.25, "star": 1.2, "ring": 1.02, "cross": 1.0}


def coverage(shape: Tensor, radius: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Opacity in [0, 1], with an edge one pixel wide, at offsets x, y (pixels) from the centre.
    shape and radius broadcast with x and y."""
    x, y = x / radius, y / radius
    distance = torch.zeros_like(x + y)
    for index, name in enumerate(grammar.SHAPES):
        distance = torch.where(shape == index, _DISTANCE[name](x, y), distance)
    return (0.5 - distance * radius).clamp(0, 1)


def render(clips: Clips, device: torch.device | str = "cpu") -> Tensor:
    """RGB in [-1, 1], fp32 [B, 3, F, H, W]."""
    # [B, 1, 1, 1, 1] to broadcast with [B, 3, F, H, W]
    shape, radius, start, velocity, colour, background = (
        torch.from_numpy(array).to(device, non_blocking=True)
        for array in (
            clips.shape, clips.radius, clips.start, clips.velocity, clips.colour, clips.background
        )
    )
    frame = torch.arange(NUM_FRAMES, device=device)
    pixel = torch.arange(SIZE_PX, dtype=torch.float32, device=device)
    centre = start[:, None] + velocity[:, None] * frame[:, None]  # [B, F, 2]
    x = pixel[None, None, None, :] - centre[:, :, 0, None, None]
    y = pixel[None, None, :, None] - centre[:, :, 1, None, None]
    per_clip = (-1, 1, 1, 1)
    opacity = coverage(shape.view(per_clip), radius.view(per_clip), x, y)[:, None]
    colour, background = (c[:, :, None, None, None] for c in (colour, background))
    return (background + opacity * (colour - background)) / 127.5 - 1.0


def to_uint8(clips: Tensor) -> Tensor:
    """[B, 3, F, H, W] in [-1, 1] to frames uint8 [B, F, H, W, 3], as the runtime does."""
    scaled = ((clips.float() / 2 + 0.5) * 255).clamp(0, 255)
    return scaled.to(torch.uint8).permute(0, 2, 3, 4, 1).contiguous()
