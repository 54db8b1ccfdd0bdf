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
    from training.formats import Format

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


def opacities(
    video: Format, shape: np.ndarray, radius: np.ndarray, start: np.ndarray, velocity: np.ndarray,
    device: torch.device | str,
) -> Tensor:
    """The opacity [N, F, H, W] of N objects: shapes as indices in grammar.SHAPES, radii [N, 1], starts and velocities
    [N, 2]."""
    # In the order of their shapes, so that each formula is computed for its own alone.
    order = np.argsort(shape, kind="stable")
    count = np.bincount(shape, minlength=len(grammar.SHAPES))
    numbers = np.concatenate([radius, start, velocity], 1)[order].astype(np.float32)
    numbers = torch.from_numpy(numbers).to(device, non_blocking=True)
    place = torch.from_numpy(np.argsort(order)).to(device, non_blocking=True)
    frame = torch.arange(video.frames, device=device)
    x, y = (torch.arange(n, dtype=torch.float32, device=device) for n in (video.width, video.height))
    opacity = torch.empty(len(order), video.frames, video.height, video.width, device=device)
    first = 0
    for name, n in zip(grammar.SHAPES, count.tolist()):
        radius_, start_, velocity_ = numbers[first : first + n].split((1, 2, 2), 1)
        centre = start_[:, None] + velocity_[:, None] * frame[:, None]  # [n, F, 2]
        offset_x = x - centre[:, :, 0, None, None]
        offset_y = y[:, None] - centre[:, :, 1, None, None]
        opacity[first : first + n] = coverage(name, radius_[..., None, None], offset_x, offset_y)
        first += n
    return opacity[place]


def render(clips: Clips, device: torch.device | str = "cpu") -> Tensor:
    """RGB in [-1, 1], fp32 [B, 3, F, H, W]. The objects of a clip never overlap."""
    clip, slot = np.nonzero(clips.shape >= 0)
    objects = (array[clip, slot] for array in (clips.radius[..., None], clips.start, clips.velocity))
    opacity = opacities(clips.format, clips.shape[clip, slot], *objects, device)
    step = clips.colour[clip, slot] - clips.background[clip]
    step, background = (torch.from_numpy(array).to(device, non_blocking=True) for array in (step, clips.background))
    pixels = background[..., None, None, None].expand(-1, -1, *opacity.shape[1:])
    objects = opacity[:, None] * step[..., None, None, None]
    return pixels.index_add(0, torch.from_numpy(clip).to(device, non_blocking=True), objects) / 127.5 - 1.0


def to_uint8(pixels: Tensor) -> Tensor:
    """[B, 3, F, H, W] in [-1, 1] to frames uint8 [B, F, H, W, 3], as the runtime does."""
    scaled = ((pixels.float() / 2 + 0.5) * 255).clamp(0, 255)
    return scaled.to(torch.uint8).permute(0, 2, 3, 4, 1).contiguous()
