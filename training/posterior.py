"""The mean of all clips that a noisy one may come from: a target for training with far less noise than the clip itself.

A loss against the clip that was drawn teaches the mean of all clips that fit the caption and the noisy pixels, but
through single draws: at strong noise hardly anything of a step's gradient is error of the model, nearly all is where
this clip's object happened to be. Here the place is summed over. A clip's object is moved by whole pixels to all places
that the data know, which are equally likely, with a few other radii and speeds drawn like its own; each candidate
counts by how well it explains the noisy pixels. The true clip is one of the candidates, and any of them could have
been drawn in its place, so the mean over many draws is the same as that of the clips (Rao and Blackwell; "stable
target field" is the same idea with candidates from the batch). Of two objects each is moved while the other stays, and
a background that the caption does not name is exchanged while the objects stay.
"""
from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from training import clips as data
from training import drawing, grammar
from training.clips import Clips
from training.drawing import EXTENT, OUTER

CANDIDATES = 4  # radii and speeds of an object, its own among them
_SLACK = 1e-3  # pixels; so that rounding never rules out the true place


@dataclasses.dataclass(frozen=True)
class Candidates:
    """What an object may be apart from its place. N objects, K candidates each, of which the first is true."""

    clip: np.ndarray  # [N] which clip the object is in
    slot: np.ndarray  # [N] which of the clip's objects it is
    radius: np.ndarray  # [N, K]
    velocity: np.ndarray  # [N, K, 2]
    start: np.ndarray  # [N, K, 2] one place
    lowest: np.ndarray  # [N, K, 2] of all places
    highest: np.ndarray  # [N, K, 2]


def candidates(clips: Clips, u: np.ndarray) -> Candidates:
    """Of every object in the clips. u [B, 2, K, 5] in [0, 1) draws."""
    clip, slot = np.nonzero(clips.shape >= 0)
    u, count = u[clip, slot], u.shape[2]
    objects = [clips.objects[b][k] for b, k in zip(clip, slot)]
    radius, velocity = (array[clip, slot][:, None].repeat(count, 1) for array in (clips.radius, clips.velocity))
    start = clips.start[clip, slot][:, None].repeat(count, 1)
    extent = np.array([EXTENT[o["shape"]] for o in objects])[:, None]
    direction = np.array([grammar.MOTIONS[o["motion"]] for o in objects])[:, None]
    sizes = [
        (o["size"],) if "size" in clips.stated[b][k] else data.sizes_of(clips.format, len(clips.objects[b]))
        for o, b, k in zip(objects, clip, slot)
    ]
    ranges = np.array([[grammar.SIZES[_pick(names, x)] for x in row] for names, row in zip(sizes, u[..., 0])])
    radius[:, 1:] = (ranges[..., 0] + u[..., 1] * (ranges[..., 1] - ranges[..., 0]))[:, 1:]
    speed = data.SPEED_PX[0] + u[..., 2] * (data.SPEED_PX[1] - data.SPEED_PX[0])
    velocity[:, 1:] = (speed[..., None] * direction)[:, 1:]
    lowest, highest = data.room(clips.format, extent * radius, velocity)
    start[:, 1:] = (lowest + u[..., 3:] * (highest - lowest))[:, 1:]
    return Candidates(clip, slot, radius, velocity, start, lowest, highest)


def _pick(values: tuple, u: float):
    return values[int(u * len(values))]


def _allowed(clips: Clips, found: Candidates, device: torch.device | str) -> Tensor:
    """Which moves by whole pixels, modulo the frame, keep an object in the frame and off the other: bool [N, K, H, W]."""
    video, (n, k, _) = clips.format, found.start.shape
    numbers = np.concatenate([found.lowest - found.start, found.highest - found.start], -1).astype(np.float32)
    lowest, highest = torch.from_numpy(numbers).to(device, non_blocking=True).split(2, -1)
    moves, inside = [], []
    for axis, length in enumerate((video.width, video.height)):
        move = torch.arange(length, device=device, dtype=torch.float32)
        low, high = (limit[..., axis, None] for limit in (lowest - _SLACK, highest + _SLACK))
        move = torch.where(move <= high, move, move - length)  # [N, K, length]
        moves.append(move)
        inside.append((move >= low) & (move <= high))
    allowed = inside[1][..., :, None] & inside[0][..., None, :]
    if clips.shape.shape[1] == 1 or not (clips.shape[:, 1] >= 0).any():
        return allowed
    # The other object: where it starts from here, how the two drift apart, and how near they may come.
    other = 1 - found.slot
    has_other = clips.shape[found.clip, other] >= 0
    pick = lambda array: array[found.clip, other][:, None]
    outer = np.array([OUTER[shape] for shape in grammar.SHAPES])
    of_shape = lambda slot: outer[clips.shape[found.clip, slot]][:, None]
    least = data.GAP_PX + found.radius * of_shape(found.slot) + pick(clips.radius) * of_shape(other)
    least = np.where(has_other[:, None], least - _SLACK, -1.0)
    numbers = [found.start - pick(clips.start), found.velocity - pick(clips.velocity), least[..., None]]
    numbers = torch.from_numpy(np.concatenate(numbers, -1).astype(np.float32)).to(device, non_blocking=True)
    x, y, drift_x, drift_y, least = (t[..., None, None] for t in numbers.unbind(-1))
    x, y = x + moves[0][..., None, :], y + moves[1][..., :, None]
    # The squared distance is convex in time: its least value over frames is beside that over the reals.
    nearest = -(x * drift_x + y * drift_y) / (drift_x.square() + drift_y.square()).clamp(min=1e-9)
    nearest = nearest.clamp(0, video.frames - 1)
    for frame in (nearest.floor(), nearest.ceil()):
        distance = (x + frame * drift_x).square() + (y + frame * drift_y).square()
        allowed = allowed & (distance >= least.square() * least.sign())
    return allowed


def _background_change(clips: Clips, noise: Tensor, sigma: Tensor, outside: Tensor) -> Tensor:
    """The mean background less the true one, [B, 3]; noise = noisy - (1 - sigma) * pixels, and outside [B, F, H, W] is
    how much of the background each pixel shows."""
    known = np.array([all("background" in names for names in of_clip) for of_clip in clips.stated])
    others = np.array(list(grammar.BACKGROUNDS.values()), np.float32) - clips.background[:, None]  # [B, G, 3]
    others = torch.from_numpy(others / 127.5 * ~known[:, None, None]).to(noise.device, non_blocking=True)
    seen = (noise * outside[:, None]).sum((2, 3, 4))
    keep = (1 - sigma)[:, None]
    energy = others.square().sum(-1) * outside.square().sum((1, 2, 3))[:, None]
    logits = ((others * seen[:, None]).sum(-1) - keep * energy / 2) * keep / sigma.square()[:, None]
    return (logits.softmax(1)[..., None] * others).sum(1)


def expected(clips: Clips, pixels: Tensor, noisy: Tensor, sigma: Tensor, u: np.ndarray) -> Tensor:
    """The mean clip [B, 3, F, H, W] given noisy = (1 - sigma) * pixels + sigma * noise; pixels = render(clips).
    u [B, 2, K, 5] in [0, 1) draws K - 1 candidates beside the true one."""
    video, device = clips.format, pixels.device
    found = candidates(clips, u)
    n, count = found.radius.shape
    shape = clips.shape[found.clip, found.slot]
    flat = (array.reshape(n * count, -1) for array in (found.radius, found.start, found.velocity))
    opacity = drawing.opacities(video, shape.repeat(count), *flat, device).view(n, count, *dataclasses.astuple(video))
    clip = torch.from_numpy(found.clip).to(device, non_blocking=True)
    contrast = (clips.colour[found.clip, found.slot] - clips.background[found.clip]) / 127.5
    contrast = torch.from_numpy(contrast.astype(np.float32)).to(device, non_blocking=True)  # [N, 3]
    level = sigma.float()[clip]  # [N]
    keep = (1 - level).view(-1, 1, 1, 1)

    # How well each candidate explains what the noisy clip has beside the background and the other object.
    noise = noisy - (1 - sigma.float()).view(-1, 1, 1, 1, 1) * pixels
    # Not as a matrix product, which on a GPU would round its inputs.
    rest = sum(noise[clip, c] * contrast[:, c, None, None, None] for c in range(3))
    strength = contrast.square().sum(1)
    signal = rest + keep * strength.view(-1, 1, 1, 1) * opacity[:, 0]
    waves = torch.fft.rfft2(opacity)  # [N, K, F, H, W / 2 + 1]
    size = (video.height, video.width)
    overlap = torch.fft.irfft2((waves.conj() * torch.fft.rfft2(signal)[:, None]).sum(2), s=size)  # [N, K, H, W]
    energy = opacity.square().sum((2, 3, 4)) * strength[:, None]
    area = (found.highest - found.lowest).clip(1).prod(-1).astype(np.float32)
    area = torch.from_numpy(area).to(device, non_blocking=True)
    ratio = ((1 - level) / level)[:, None]
    logits = (ratio / level[:, None])[..., None, None] * overlap
    logits = logits - (ratio.square() * energy / 2 + area.log())[..., None, None]
    logits = logits.masked_fill(~_allowed(clips, found, device), -torch.inf)
    chance = logits.flatten(1).softmax(1).view_as(logits)
    mean = torch.fft.irfft2((torch.fft.rfft2(chance)[:, :, None] * waves).sum(1), s=size)  # [N, F, H, W]
    change = (mean - opacity[:, 0])[:, None] * contrast[..., None, None, None]
    outside = 1 - torch.zeros_like(pixels[:, 0]).index_add(0, clip, opacity[:, 0])
    background = _background_change(clips, noise, sigma.float(), outside)
    return pixels.index_add(0, clip, change) + outside[:, None] * background[..., None, None, None]
