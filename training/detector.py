"""Reads from the pixels what a clip shows. Deterministic, and blind to the caption.

Background from the border. A colour of the grammar that fills an area in most frames is an object of that colour:
its exact colour is the median of that area, its opacity follows from where a pixel lies between background and
colour. Then motion from the centroids, and shape and size from the motion-compensated mean of all frames against
templates at many radii. What does not look like one object of one colour in all frames is "none".
"""
from __future__ import annotations

import dataclasses
import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from training import grammar
from training.drawing import coverage

NONE = "none"
ATTRIBUTES = ("shape", "colour", "motion", "size")  # of an object
# Thresholds lie midway between what real clips give and what wrong ones do (tests/test_detector.py).
MAX_BACKGROUND_DISTANCE = 30.0  # in 0-255 RGB; the backgrounds are 59 or more apart
MAX_COLOUR_DISTANCE = 50.0  # of an object's median; the colours are 100 or more apart
MAX_PIXEL_DISTANCE = 70.0  # of a pixel of an object
MIN_CONTRAST = 60.0  # between object and background; 113 in the palest real clip
MIN_AREA_PX = 15  # of an object's inside, less a rim of a pixel; 40 in the smallest star
REACH_PX = 3  # around the inside of an object, where its edge may lie
MAX_UNEXPLAINED_PX = 80.0  # a frame: neither background, object nor a mix of the two; the smallest object has 154
UNEXPLAINED_DISTANCE = 60.0
MASS_RANGE = (0.5, 1.6)  # area of the object in a frame over its median area
MIN_FRAME_SHARE = 0.9  # of frames whose area is in range
MAX_PATH_RESIDUAL_PX = 2.0  # RMS distance of the centroids from a straight path
MIN_TRAVEL_PX = 4.5  # from first to last frame; real motions travel at least 9
MIN_IOU = 0.6
SIZE_SPLIT_PX = 11.75  # small radii end at 10.5, large ones begin at 13
WINDOW_PX = 49  # side of the mean picture; the largest object spans 40
RADII = [7.0 + 0.25 * i for i in range(45)]
CHUNK_PIXELS = 1 << 21  # that are looked at together


@dataclasses.dataclass(frozen=True)
class Found:
    """An object: a value of the grammar or "none" for each of ATTRIBUTES, and how sure, in [0, 1]."""

    value: dict[str, str]
    confidence: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a clip shows: its background or "none", and an object for every colour that fills an area."""

    background: str
    objects: tuple[Found, ...]


@functools.lru_cache(maxsize=4)
def _templates(device: torch.device) -> Tensor:
    """Opacities [shapes, radii, WINDOW_PX, WINDOW_PX] around the centroid."""
    offset = torch.arange(WINDOW_PX, device=device).float() - WINDOW_PX // 2
    radius = torch.tensor(RADII, device=device).view(-1, 1, 1)
    return torch.stack([coverage(shape, radius, offset, offset[:, None]) for shape in grammar.SHAPES])


def _table(table: dict, device: torch.device) -> Tensor:
    return torch.tensor(list(table.values()), dtype=torch.float32, device=device)


def _nearest(colour: Tensor, table: dict) -> tuple[Tensor, Tensor, Tensor]:
    """Index of the nearest entry, its distance, and 1 - distance / that of the second nearest."""
    ordered, index = (colour[:, None] - _table(table, colour.device)).norm(dim=-1).sort(1)
    return index[:, 0], ordered[:, 0], 1 - ordered[:, 0] / ordered[:, 1]


def _border(frames: Tensor) -> Tensor:
    """The outermost pixels of all frames, [B, n, 3]."""
    sides = (frames[:, :, 0], frames[:, :, -1], frames[:, :, 1:-1, 0], frames[:, :, 1:-1, -1])
    return torch.cat([side.flatten(1, 2) for side in sides], 1)


def _largest(mask: Tensor, radius: int) -> Tensor:
    """Maximum over squares of 2 radius + 1 pixels of [..., F, H, W] in 0, 1, fp32."""
    return F.max_pool2d(mask, 2 * radius + 1, 1, radius)


def _classes(frames: Tensor, background: Tensor) -> Tensor:
    """Index of the colour that each pixel has, or -1: [B, F, H, W]. Nearer to it than to the background."""
    best = (frames - background[:, None, None, None]).norm(dim=-1).clamp(max=MAX_PIXEL_DISTANCE)
    found = torch.full(best.shape, -1, dtype=torch.int64, device=best.device)
    for index, colour in enumerate(_table(grammar.COLOURS, frames.device)):
        distance = (frames - colour).norm(dim=-1)
        found = torch.where(distance < best, index, found)
        best = torch.minimum(distance, best)
    return found


def _insides(classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Clip and colour of every object [M], and its inside [M, F, H, W] in 0, 1: less a rim, so that what an edge
    mixes, which may resemble a third colour, is no object."""
    clips, colours, insides = [], [], []
    for index in range(len(grammar.COLOURS)):
        inside = 1 - _largest((classes != index).float(), 1)
        area = inside.sum((2, 3)).median(1).values
        present = (area >= MIN_AREA_PX).nonzero()[:, 0]
        clips.append(present)
        colours.append(torch.full_like(present, index))
        insides.append(inside[present])
    clip, order = torch.cat(clips).sort(stable=True)
    return clip, torch.cat(colours)[order], torch.cat(insides)[order]


def _opacities(frames: Tensor, background: Tensor, clip: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each object: its colour [M, 3], its opacity [M, F, H, W], and how far each pixel is from every mix of
    the two [M, F, H, W]."""
    colour = torch.stack([frames[n][one > 0].median(0).values for n, one in zip(clip.tolist(), inside)])
    offset = frames[clip] - background[clip, None, None, None]
    axis = colour - background[clip]
    opacity = (offset @ axis[:, None, None, :, None])[..., 0] / axis.square().sum(1)[:, None, None, None]
    opacity = opacity.clamp(0, 1)
    rest = (offset - opacity[..., None] * axis[:, None, None, None]).norm(dim=-1)
    # Faint noise far away would move the centroid, and another object's edge is no part of this one.
    return colour, opacity.where(opacity > 0.15, 0) * _largest(inside, REACH_PX), rest


def _unexplained(frames: Tensor, background: Tensor, clip: Tensor, rest: Tensor) -> Tensor:
    """Pixels a frame [B] that are no mix of the background with any object of their clip."""
    least = (frames - background[:, None, None, None]).norm(dim=-1)
    for n, one in zip(clip.tolist(), rest):
        least[n] = torch.minimum(least[n], one)
    return (least > UNEXPLAINED_DISTANCE).float().sum((2, 3)).mean(1)


def _motion(centroid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Least-squares straight path through centroids [M, F, 2]: class, confidence, residual."""
    time = torch.arange(centroid.shape[1], dtype=centroid.dtype, device=centroid.device)
    time = time - time.mean()
    velocity = (time[:, None] * centroid).sum(1) / time.square().sum()  # [M, 2]
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


def _mean_picture(opacity: Tensor, centroid: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over frames of opacity [M, F, H, W], each shifted so that its centroid is central; and the mean area
    that lies outside of that picture."""
    objects, frames, height, width = opacity.shape
    offset = torch.arange(WINDOW_PX, device=opacity.device, dtype=opacity.dtype) - WINDOW_PX // 2
    centroid = centroid.flatten(0, 1)
    x = (centroid[:, 0, None, None] + offset[None, None, :]).expand(-1, WINDOW_PX, -1)
    y = (centroid[:, 1, None, None] + offset[None, :, None]).expand(-1, -1, WINDOW_PX)
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    shifted = F.grid_sample(opacity.flatten(0, 1)[:, None], grid, align_corners=False)
    picture = shifted.view(objects, frames, WINDOW_PX, WINDOW_PX).mean(1)
    return picture, (opacity.sum((2, 3)).mean(1) - picture.sum((1, 2))).clamp(min=0)


def _shape(picture: Tensor, outside: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Best template of a picture [M, W, W]: shape, its IoU, margin to the next shape, radius."""
    templates = _templates(picture.device)
    ious = []
    for one, beside in zip(picture, outside):  # one object at a time: all of them would need gigabytes
        union = torch.maximum(one, templates).sum((2, 3)) + beside
        ious.append(torch.minimum(one, templates).sum((2, 3)) / union)
    per_shape, radius_idx = torch.stack(ious).max(2)  # [M, shapes]
    ordered, shape = per_shape.sort(1, descending=True)
    radius = torch.tensor(RADII, device=picture.device)[radius_idx.gather(1, shape[:, :1])[:, 0]]
    return shape[:, 0], ordered[:, 0], ordered[:, 0] - ordered[:, 1], radius


def _objects(frames: Tensor, background: Tensor, clip: Tensor, inside: Tensor) -> list[Found]:
    colour, opacity, rest = _opacities(frames, background, clip, inside)
    mass = opacity.sum((2, 3))
    y, x = (torch.arange(n, dtype=mass.dtype, device=mass.device) for n in frames.shape[2:4])
    moments = torch.stack([(opacity.sum(2) * x).sum(2), (opacity.sum(3) * y).sum(2)], -1)
    centroid = moments / mass.clamp(min=1e-6)[..., None]  # [M, F, 2], (x, y)
    relative = mass / mass.median(1, keepdim=True).values.clamp(min=1e-6)
    in_range = ((relative > MASS_RANGE[0]) & (relative < MASS_RANGE[1])).float().mean(1)
    colour_idx, colour_distance, colour_margin = _nearest(colour, grammar.COLOURS)
    motion_idx, motion_margin, residual = _motion(centroid)
    shape_idx, iou, shape_margin, radius = _shape(*_mean_picture(opacity, centroid))
    is_object = (
        ((colour - background[clip]).norm(dim=1) > MIN_CONTRAST)
        & (colour_distance < MAX_COLOUR_DISTANCE)
        & (_unexplained(frames, background, clip, rest)[clip] < MAX_UNEXPLAINED_PX)
        & (in_range >= MIN_FRAME_SHARE)
        & (residual < MAX_PATH_RESIDUAL_PX)
        & (iou > MIN_IOU)
    ).tolist()
    size_margin = ((radius - SIZE_SPLIT_PX).abs() / SIZE_SPLIT_PX).clamp(max=1)
    found = {
        "shape": (grammar.SHAPES, shape_idx, shape_margin),
        "colour": (list(grammar.COLOURS), colour_idx, colour_margin),
        "motion": (list(grammar.MOTIONS), motion_idx, motion_margin),
        "size": (list(grammar.SIZES), (radius > SIZE_SPLIT_PX).long(), size_margin),
    }
    lists = {name: (values, index.tolist(), margin.tolist()) for name, (values, index, margin) in found.items()}
    return [
        Found(
            {name: values[index[n]] if ok else NONE for name, (values, index, _) in lists.items()},
            {name: margin[n] if ok else 0.0 for name, (_, _, margin) in lists.items()},
        )
        for n, ok in enumerate(is_object)
    ]


def _detect(frames: Tensor) -> list[Scene]:
    frames = frames.float()
    background = _border(frames).median(1).values
    index, distance, _ = _nearest(background, grammar.BACKGROUNDS)
    known = list(grammar.BACKGROUNDS)
    names = [known[i] if d < MAX_BACKGROUND_DISTANCE else NONE for i, d in zip(index.tolist(), distance.tolist())]
    clip, _, inside = _insides(_classes(frames, background))
    objects: list[list[Found]] = [[] for _ in names]
    if len(clip):
        for n, found in zip(clip.tolist(), _objects(frames, background, clip, inside)):
            objects[n].append(found)
    return [Scene(name, tuple(found)) for name, found in zip(names, objects)]


def detect(frames: Tensor) -> list[Scene]:
    """What each clip of uint8 frames [B, F, H, W, 3] shows. Memory is that of CHUNK_PIXELS."""
    if frames.dtype != torch.uint8 or frames.dim() != 5 or frames.shape[-1] != 3:
        raise ValueError(f"[detect] frames: expected uint8 [B, F, H, W, 3], got {frames.dtype} {list(frames.shape)}")
    chunk = max(1, CHUNK_PIXELS // math.prod(frames.shape[1:4]))
    return [found for part in frames.split(chunk) for found in _detect(part)]
