"""Reads from the pixels what a clip shows. Deterministic, and blind to the caption.

Background from the border, colour from the pixels farthest from it, motion from the centroids, shape
and size from the motion-compensated mean of all frames against templates at many radii. What does
not look like one object in all frames is "none".
"""
from __future__ import annotations

import dataclasses
import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from training import grammar
from training.clips import coverage

NONE = "none"
# Thresholds lie midway between what real clips give and what wrong ones do (tests/test_detector.py).
MAX_BACKGROUND_DISTANCE = 30.0  # in 0-255 RGB; the backgrounds are 59 or more apart
MAX_COLOUR_DISTANCE = 50.0  # the colours are 100 or more apart
MIN_CONTRAST = 60.0  # between object and background; 113 in the palest real clip
MAX_UNEXPLAINED = 0.03  # share of pixels that are neither background, object nor a mix of the two
UNEXPLAINED_DISTANCE = 60.0
MASS_RANGE = (0.5, 1.6)  # area of the object in a frame over its median area
MIN_FRAME_SHARE = 0.9  # of frames whose area is in range
MAX_PATH_RESIDUAL_PX = 2.0  # RMS distance of the centroids from a straight path
MIN_TRAVEL_PX = 4.5  # from first to last frame; real motions travel at least 9
MIN_IOU = 0.6
SIZE_SPLIT_PX = 11.75  # small radii end at 10.5, large ones begin at 13
WINDOW_PX = 49  # side of the mean picture; the largest object spans 40
RADII = [7.0 + 0.25 * i for i in range(45)]


@dataclasses.dataclass(frozen=True)
class Detection:
    """A value of the grammar or "none" for each attribute, and how sure, in [0, 1]."""

    value: dict[str, str]
    confidence: dict[str, float]


@functools.lru_cache(maxsize=4)
def _templates(device: torch.device) -> Tensor:
    """Opacities [shapes, radii, WINDOW_PX, WINDOW_PX] around the centroid."""
    offset = torch.arange(WINDOW_PX, device=device) - WINDOW_PX // 2
    shape = torch.arange(len(grammar.SHAPES), device=device).view(-1, 1, 1, 1)
    radius = torch.tensor(RADII, device=device).view(1, -1, 1, 1)
    return coverage(shape, radius, offset.float().view(1, 1, 1, -1), offset.float().view(1, 1, -1, 1))


def _nearest(colour: Tensor, table: dict) -> tuple[Tensor, Tensor, Tensor]:
    """Index of the nearest entry, its distance, and 1 - distance / that of the second nearest."""
    entries = torch.tensor(list(table.values()), dtype=colour.dtype, device=colour.device)
    ordered, index = (colour[:, None] - entries).norm(dim=-1).sort(1)
    return index[:, 0], ordered[:, 0], 1 - ordered[:, 0] / ordered[:, 1]


def _border(frames: Tensor) -> Tensor:
    """The outermost pixels of all frames, [B, n, 3]."""
    sides = (frames[:, :, 0], frames[:, :, -1], frames[:, :, 1:-1, 0], frames[:, :, 1:-1, -1])
    return torch.cat([side.flatten(1, 2) for side in sides], 1)


def _object_colour(frames: Tensor, distance: Tensor) -> tuple[Tensor, Tensor]:
    """Median colour [B, 3] of the pixels far from the background, and how far those are [B]."""
    flat = distance.flatten(1)
    # The smallest object covers 4.7 % of the pixels, so this rank lies well inside it.
    contrast = flat.kthvalue(int(0.985 * flat.shape[1]), dim=1).values
    is_core = distance > 0.8 * contrast[:, None, None, None]
    core = frames.masked_fill(~is_core[..., None], math.nan).flatten(1, 3)
    return core.nanmedian(1).values, contrast


def _motion(centroid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Least-squares straight path through centroids [B, F, 2]: class, confidence, residual."""
    time = torch.arange(centroid.shape[1], dtype=centroid.dtype, device=centroid.device)
    time = time - time.mean()
    velocity = (time[:, None] * centroid).sum(1) / time.square().sum()  # [B, 2]
    path = centroid.mean(1, keepdim=True) + time[:, None] * velocity[:, None]
    residual = (centroid - path).square().sum(-1).mean(1).sqrt()
    travel = velocity.norm(dim=1) * (centroid.shape[1] - 1)
    octants = torch.atan2(velocity[:, 1], velocity[:, 0]) / (math.pi / 4)
    moving = octants.round().long() % 8 + 1  # grammar.MOTIONS starts with "still", then clockwise
    angle_confidence = 1 - 2 * (octants - octants.round()).abs()
    is_still = travel < MIN_TRAVEL_PX
    travel_confidence = (travel / MIN_TRAVEL_PX - 1).abs().clamp(max=1)
    confidence = torch.where(is_still, travel_confidence, torch.minimum(angle_confidence, travel_confidence))
    return torch.where(is_still, 0, moving), confidence, residual


def _mean_picture(opacity: Tensor, centroid: Tensor) -> Tensor:
    """The mean over frames of opacity [B, F, H, W], each shifted so that its centroid is central."""
    batch, frames, height, width = opacity.shape
    offset = torch.arange(WINDOW_PX, device=opacity.device, dtype=opacity.dtype) - WINDOW_PX // 2
    centroid = centroid.flatten(0, 1)
    x = (centroid[:, 0, None, None] + offset[None, None, :]).expand(-1, WINDOW_PX, -1)
    y = (centroid[:, 1, None, None] + offset[None, :, None]).expand(-1, -1, WINDOW_PX)
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    shifted = F.grid_sample(opacity.flatten(0, 1)[:, None], grid, align_corners=False)
    return shifted.view(batch, frames, WINDOW_PX, WINDOW_PX).mean(1)


def _shape(picture: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Best template of a picture [B, W, W]: shape, its IoU, margin to the next shape, radius."""
    templates = _templates(picture.device)
    ious = []
    for one in picture:  # one clip at a time: all of them would need gigabytes
        union = torch.maximum(one, templates).sum((2, 3))
        ious.append(torch.minimum(one, templates).sum((2, 3)) / union)
    per_shape, radius_idx = torch.stack(ious).max(2)  # [B, shapes]
    ordered, shape = per_shape.sort(1, descending=True)
    radius = torch.tensor(RADII, device=picture.device)[radius_idx.gather(1, shape[:, :1])[:, 0]]
    return shape[:, 0], ordered[:, 0], ordered[:, 0] - ordered[:, 1], radius


def _detect(frames: Tensor) -> list[Detection]:
    frames = frames.float()
    background = _border(frames).median(1).values
    offset = frames - background[:, None, None, None]
    colour, contrast = _object_colour(frames, offset.norm(dim=-1))
    axis = colour - background
    opacity = (offset @ axis[:, None, None, :, None])[..., 0] / axis.square().sum(1)[:, None, None, None]
    opacity = opacity.clamp(0, 1)
    rest = (offset - opacity[..., None] * axis[:, None, None, None]).norm(dim=-1)
    unexplained = (rest > UNEXPLAINED_DISTANCE).float().mean((1, 2, 3))
    opacity = opacity.where(opacity > 0.15, 0)  # faint noise far away would move the centroid

    mass = opacity.sum((2, 3))
    pixel = torch.arange(frames.shape[2], dtype=mass.dtype, device=mass.device)
    moments = torch.stack([(opacity.sum(axis) * pixel).sum(2) for axis in (2, 3)], -1)
    centroid = moments / mass.clamp(min=1e-6)[..., None]  # [B, F, 2], (x, y)
    relative = mass / mass.median(1, keepdim=True).values.clamp(min=1e-6)
    in_range = ((relative > MASS_RANGE[0]) & (relative < MASS_RANGE[1])).float().mean(1)

    background_idx, background_distance, background_margin = _nearest(background, grammar.BACKGROUNDS)
    colour_idx, colour_distance, colour_margin = _nearest(colour, grammar.COLOURS)
    motion_idx, motion_margin, residual = _motion(centroid)
    shape_idx, iou, shape_margin, radius = _shape(_mean_picture(opacity, centroid))
    has_background = background_distance < MAX_BACKGROUND_DISTANCE
    has_object = (
        (contrast > MIN_CONTRAST)
        & (colour_distance < MAX_COLOUR_DISTANCE)
        & (unexplained < MAX_UNEXPLAINED)
        & (in_range >= MIN_FRAME_SHARE)
        & (residual < MAX_PATH_RESIDUAL_PX)
        & (iou > MIN_IOU)
    )
    size_margin = ((radius - SIZE_SPLIT_PX).abs() / SIZE_SPLIT_PX).clamp(max=1)
    names = {name: list(table) for name, table in (
        ("shape", grammar.SHAPES), ("colour", grammar.COLOURS), ("motion", grammar.MOTIONS),
        ("background", grammar.BACKGROUNDS), ("size", grammar.SIZES),
    )}
    found = {
        "shape": (shape_idx, shape_margin, has_object),
        "colour": (colour_idx, colour_margin, has_object),
        "motion": (motion_idx, motion_margin, has_object),
        "background": (background_idx, background_margin, has_background),
        "size": ((radius > SIZE_SPLIT_PX).long(), size_margin, has_object),
    }
    return [
        Detection(
            {k: names[k][int(i[n])] if ok[n] else NONE for k, (i, _, ok) in found.items()},
            {k: float(c[n]) if ok[n] else 0.0 for k, (_, c, ok) in found.items()},
        )
        for n in range(len(frames))
    ]


def detect(frames: Tensor, chunk: int = 32) -> list[Detection]:
    """What each clip of uint8 frames [B, F, 64, 64, 3] shows. Memory is that of `chunk` clips."""
    if frames.dtype != torch.uint8 or frames.dim() != 5 or frames.shape[-1] != 3:
        raise ValueError(f"[detect] frames: expected uint8 [B, F, H, W, 3], got {frames.dtype} {list(frames.shape)}")
    return [found for part in frames.split(chunk) for found in _detect(part)]
