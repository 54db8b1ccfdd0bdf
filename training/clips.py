"""Captioned clips from seeds: one or two objects that stand or move over a plain background.

What a clip shows is drawn on the CPU from a counter-based generator, so a seed names the same clips
on every machine; drawing.py then computes the pixels on any device.
"""
from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np

from training import grammar
from training.drawing import EXTENT, OUTER
from training.formats import SMALL, Format

TRAIN, EVALUATION = 0, 1  # second word of the generator's key, so their clips are disjoint
SPEED_PX = (0.6, 1.4)  # per frame: at least 9 pixels in a clip, and a large object stays in frame
MARGIN_PX = 1.0  # between an object and the edge of the frame
GAP_PX = 5.0  # at least, between two objects in every frame
MAX_OBJECTS = 2
ROOM_PX = 96  # a smaller frame has room for two small objects alone
_PLACES = 256  # pairs of places that are tried


@dataclasses.dataclass(frozen=True)
class Clips:
    """What B clips show, each with up to K objects. Arrays are fp32; positions in pixels (x, y), pixel
    centres are integers. Where a clip has fewer than K objects, the rest has the shape -1."""

    format: Format
    objects: list[tuple[dict, ...]]  # attributes of each object; all of a clip have one background
    captions: list[str]
    stated: list[tuple[list[str], ...]]  # the attributes that each caption names, of each object
    shape: np.ndarray  # [B, K] int64, index in grammar.SHAPES
    radius: np.ndarray  # [B, K]
    start: np.ndarray  # [B, K, 2] centre in frame 0
    velocity: np.ndarray  # [B, K, 2] per frame
    colour: np.ndarray  # [B, K, 3] in 0-255
    background: np.ndarray  # [B, 3]

    def part(self, which: slice) -> Clips:
        """Some of the clips."""
        values = (getattr(self, field.name)[which] for field in dataclasses.fields(self)[1:])
        return Clips(self.format, *values)


def seed_of(*key: int) -> int:
    """A seed of two numbers, as a hash: other numbers give another seed."""
    return int(np.random.Philox(key=list(key)).random_raw()) >> 1


@functools.cache
def triples(held_out: bool, without: str | None = None) -> tuple[tuple, ...]:
    """(shape, colour, motion) of training, or those held out from it, but none of the colour `without`."""
    every = itertools.product(grammar.SHAPES, grammar.COLOURS, grammar.MOTIONS)
    return tuple(t for t in every if grammar.is_held_out(*t) == held_out and t[1] != without)


@dataclasses.dataclass(frozen=True)
class _Object:
    attributes: dict
    radius: float
    velocity: np.ndarray  # [2] per frame
    lowest: np.ndarray  # [2] of the centre in frame 0, so that the whole path lies in the frame
    highest: np.ndarray  # [2]


def _pick(values, u: float):
    values = list(values)
    return values[int(u * len(values))]


def room(video: Format, extent: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest centre [..., 2] in frame 0 that keep the whole path of an object in the frame;
    extent [...] along an axis, velocity [..., 2]."""
    travel = velocity * (video.frames - 1)
    reach = (MARGIN_PX + extent)[..., None]
    edge = np.array([video.width, video.height]) - 1
    return reach - np.minimum(travel, 0), edge - reach - np.maximum(travel, 0)


def sizes_of(video: Format, objects: int) -> tuple[str, ...]:
    """The sizes that the objects of a clip may have."""
    return ("small",) if objects == 2 and min(video.height, video.width) < ROOM_PX else tuple(grammar.SIZES)


def _object(
    u: np.ndarray, background: str, choices: tuple[tuple, ...], sizes: tuple[str, ...], video: Format
) -> _Object:
    """u in [0, 1): triple, size, radius, speed."""
    shape, colour, motion = _pick(choices, u[0])
    size = _pick(sizes, u[1])
    low, high = grammar.SIZES[size]
    radius = low + u[2] * (high - low)
    speed = SPEED_PX[0] + u[3] * (SPEED_PX[1] - SPEED_PX[0])
    velocity = speed * np.array(grammar.MOTIONS[motion])
    attributes = dict(shape=shape, colour=colour, motion=motion, background=background, size=size)
    return _Object(attributes, radius, velocity, *room(video, np.array(radius * EXTENT[shape]), velocity))


def _places(first: _Object, second: _Object, frames: int, rng: np.random.Generator) -> tuple[np.ndarray, ...] | None:
    """Starts of two objects that keep GAP_PX between them: the first of uniform pairs that does, if any."""
    least = GAP_PX + sum(o.radius * OUTER[o.attributes["shape"]] for o in (first, second))
    drift = (second.velocity - first.velocity) * np.arange(frames)[:, None]  # [F, 2]
    u = rng.random((_PLACES, 2, 2))
    starts = [o.lowest + u[:, n] * (o.highest - o.lowest) for n, o in enumerate((first, second))]
    apart = np.linalg.norm((starts[1] - starts[0])[:, None] + drift, axis=-1).min(1)
    place = int((apart >= least).argmax())
    return (starts[0][place], starts[1][place]) if apart[place] >= least else None


def draw(
    batch: int,
    seed: int,
    split: int,
    held_out_share: float = 0.0,
    video: Format = SMALL,
    pair_share: float = 0.0,
) -> Clips:
    """B clips. `held_out_share` is an object's chance of a combination that training never sees, and
    `pair_share` a clip's chance of two objects, which have different colours. A pair for which no place is found in
    the frame, as its objects move, becomes one object."""
    rng = np.random.Generator(np.random.Philox(key=[seed, split]))
    uniform = rng.random((batch, 12))
    of_pairs = rng.random((batch, 12)) if pair_share else np.ones((batch, 1))
    most = MAX_OBJECTS if pair_share else 1
    names = {"shape": (), "radius": (), "start": (2,), "velocity": (2,), "colour": (3,)}
    arrays = {name: np.zeros((batch, most, *extent), np.float32) for name, extent in names.items()}
    arrays["shape"] = np.full((batch, most), -1, np.int64)
    arrays["background"] = np.zeros((batch, 3), np.float32)
    objects, captions, stated = [], [], []

    for n, (u, v) in enumerate(zip(uniform, of_pairs)):
        background, is_pair = _pick(grammar.BACKGROUNDS, u[2]), v[0] < pair_share
        sizes = sizes_of(video, 1 + is_pair)
        shown = [_object(u[[1, 3, 4, 5]], background, triples(bool(u[0] < held_out_share)), sizes, video)]
        starts = (shown[0].lowest + u[6:8] * (shown[0].highest - shown[0].lowest),)
        if is_pair:
            choices = triples(bool(v[1] < held_out_share), shown[0].attributes["colour"])
            second = _object(v[2:6], background, choices, sizes, video)
            places = _places(shown[0], second, video.frames, rng)
            shown, starts = (shown, starts) if places is None else ([*shown, second], places)
        if len(shown) == 2:
            template = int(v[6] * len(grammar.PAIR_TEMPLATES))
            wordings = [int(w * len(grammar.OBJECTS)) for w in v[7:9]]
            phrases = [int(w * len(grammar.MOVING_PHRASES)) for w in v[9:11]]
            words = tuple(zip(wordings, phrases, (o.attributes for o in shown)))
            captions.append(grammar.pair_caption(template, words))
            of_scene = grammar.stated(grammar.PAIR_TEMPLATES[template])
            stated.append(tuple(grammar.stated(grammar.OBJECTS[w]) + of_scene for w in wordings))
        else:
            template = int(u[8] * len(grammar.TEMPLATES))
            phrase = int(u[9] * len(grammar.MOVING_PHRASES))
            captions.append(grammar.caption(template, phrase, shown[0].attributes))
            stated.append((grammar.stated(grammar.TEMPLATES[template]),))
        objects.append(tuple(o.attributes for o in shown))
        arrays["background"][n] = grammar.BACKGROUNDS[background]
        for k, (one, start) in enumerate(zip(shown, starts)):
            arrays["shape"][n, k] = grammar.SHAPES.index(one.attributes["shape"])
            arrays["radius"][n, k], arrays["velocity"][n, k] = one.radius, one.velocity
            arrays["start"][n, k], arrays["colour"][n, k] = start, grammar.COLOURS[one.attributes["colour"]]
    return Clips(video, objects, captions, stated, **arrays)
