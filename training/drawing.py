"""The pixels of clips, on any device."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from training import grammar

if TYPE_CHECKING:
    from training.clips import Clips

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
# Largest distance from the centre, in radii: along an axis, and in any direction.
EXTENT = {"circle": 1.0, "square": 0.88, "triangle": 1.25, "star": 1.2, "ring": 1.02, "cross": 1.0}
OUTER = {**EXTENT, "square": 0.88 * math.sqrt(2), "cross": math.hypot(1.0, 0.34)}


def coverage(shape: str, radius: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Opacity in [0, 1], with an edge one pixel wide, at offsets x, y (pixels) from the centre.
    radius broadcasts with x and y."""
    return (0.5 - _DISTANCE[shape](x / radius, y / radius) * radius).clamp(0, 1)


def render(clips: Clips, device: torch.device | str = "cpu") -> Tensor:
    """RGB in [-1, 1], fp32 [B, 3, F, H, W]. The objects of a clip never overlap."""
    video, (batch, most) = clips.format, clips.shape.shape
    # Objects in the order of their shapes, so that each formula is computed for its own alone.
    order = np.argsort(clips.shape, axis=None, kind="stable")
    order = order[np.count_nonzero(clips.shape < 0) :]
    count = np.bincount(clips.shape.reshape(-1)[order], minlength=len(grammar.SHAPES))
    row = np.full(batch * most, len(order))  # where there is no object, the row of zeros
    row[order] = np.arange(len(order))
    objects = (clips.radius[..., None], clips.start, clips.velocity, clips.colour)
    numbers = np.concatenate([array.reshape(batch * most, -1)[order] for array in objects], 1)
    numbers = torch.from_numpy(numbers).to(device, non_blocking=True)
    row = torch.from_numpy(row.reshape(batch, most)).to(device, non_blocking=True)
    background = torch.from_numpy(clips.background).to(device, non_blocking=True)

    frame = torch.arange(video.frames, device=device)
    x, y = (torch.arange(n, dtype=torch.float32, device=device) for n in (video.width, video.height))
    opacity = torch.zeros(len(order) + 1, video.frames, video.height, video.width, device=device)
    first = 0
    for name, n in zip(grammar.SHAPES, count.tolist()):
        radius, start, velocity = numbers[first : first + n, :5].split((1, 2, 2), 1)
        centre = start[:, None] + velocity[:, None] * frame[:, None]  # [n, F, 2]
        offset_x = x - centre[:, :, 0, None, None]
        offset_y = y[:, None] - centre[:, :, 1, None, None]
        opacity[first : first + n] = coverage(name, radius[..., None, None], offset_x, offset_y)
        first += n
    colour = torch.cat([numbers[:, 5:], numbers.new_zeros(1, 3)])
    pixels = background[:, :, None, None, None]
    for k in range(most):
        step = (colour[row[:, k]] - background)[:, :, None, None, None]
        pixels = pixels + opacity[row[:, k]][:, None] * step
    return pixels / 127.5 - 1.0


def to_uint8(pixels: Tensor) -> Tensor:
    """[B, 3, F, H, W] in [-1, 1] to frames uint8 [B, F, H, W, 3], as the runtime does."""
    scaled = ((pixels.float() / 2 + 0.5) * 255).clamp(0, 255)
    return scaled.to(torch.uint8).permute(0, 2, 3, 4, 1).contiguous()
