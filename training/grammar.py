"""The closed world of wan-toy: attributes of a clip, captions for them, held-out combinations."""
from __future__ import annotations

import itertools
import math

SHAPES = ("circle", "square", "triangle", "star", "ring", "cross")
# sRGB, 0-255. Saturated, so that no object is near a background.
COLOURS = {
    "red": (225, 30, 35),
    "green": (35, 175, 45),
    "blue": (40, 75, 240),
    "yellow": (250, 225, 40),
    "orange": (250, 125, 15),
    "purple": (140, 40, 195),
    "cyan": (35, 205, 225),
    "pink": (255, 105, 190),
}
BACKGROUNDS = {
    "black": (12, 12, 14),
    "gray": (112, 112, 112),
    "white": (242, 242, 242),
    "navy": (18, 22, 72),
    "brown": (84, 56, 36),
}
_DIAGONAL = math.sqrt(0.5)
# Unit vectors in pixels, y down.
MOTIONS = {
    "still": (0.0, 0.0),
    "right": (1.0, 0.0),
    "down and right": (_DIAGONAL, _DIAGONAL),
    "down": (0.0, 1.0),
    "down and left": (-_DIAGONAL, _DIAGONAL),
    "left": (-1.0, 0.0),
    "up and left": (-_DIAGONAL, -_DIAGONAL),
    "up": (0.0, -1.0),
    "up and right": (_DIAGONAL, -_DIAGONAL),
}
SIZES = {"small": (9.0, 10.5), "large": (13.0, 15.0)}  # radius in pixels of a 64 x 64 frame

# Every template names colour, shape and motion; size and background are free where not named.
TEMPLATES = (
    "a {size} {colour} {shape} {motion} on a {background} background",
    "a {colour} {shape} {motion} on a {background} background",
    "a {size} {colour} {shape} {motion}",
    "a {colour} {shape} {motion}",
    "{colour} {shape} {motion}, {background} background",
    "on a {background} background, a {size} {colour} {shape} {motion}",
    "a {size} {shape} in {colour}, {motion}, over {background}",
    "a {background} background with a {colour} {shape} {motion}",
    "a video of a {size} {colour} {shape} {motion} on {background}",
    "the {colour} {shape} is {size} and is {motion} on a {background} background",
    "a {colour} {shape}, {size}, {motion}, {background} background",
    "an animation of a {colour} {shape} {motion}",
)
# A clip of two objects, whose phrases are among OBJECTS. The background is free where it is not named.
PAIR_TEMPLATES = (
    "{first} and {second} on a {background} background",
    "{first} and {second}",
    "on a {background} background, {first} and {second}",
    "{first} and {second}, {background} background",
    "{first}, {second}, {background} background",
    "a {background} background with {first} and {second}",
    "a video of {first} and {second} on {background}",
    "an animation of {first} and {second}",
)
OBJECTS = ("a {colour} {shape} {motion}", "a {size} {colour} {shape} {motion}")
STILL_PHRASES = ("standing still", "not moving", "staying still")
MOVING_PHRASES = ("moving {}", "drifting {}", "sliding {}")


def is_held_out(shape: str, colour: str, motion: str) -> bool:
    """Whether training never sees this triple: one in ten, spread so that every pair of values of
    two attributes is still seen."""
    s, c, m = SHAPES.index(shape), list(COLOURS).index(colour), list(MOTIONS).index(motion)
    return (s + 3 * c + 7 * m) % 10 == 0


def _filled(template: str, phrase: int, attributes: dict) -> str:
    if attributes["motion"] == "still":
        motion = STILL_PHRASES[phrase]
    else:
        motion = MOVING_PHRASES[phrase].format(attributes["motion"])
    return template.format(**{**attributes, "motion": motion}).replace("a orange", "an orange")


def caption(template: int, phrase: int, attributes: dict) -> str:
    """The words for a clip of one object; template and phrase choose among the wordings."""
    return _filled(TEMPLATES[template], phrase, attributes)


def pair_caption(template: int, objects: tuple[tuple[int, int, dict], ...]) -> str:
    """The words for a clip of two objects, each (index in OBJECTS, phrase, attributes), on one background."""
    first, second = (_filled(OBJECTS[wording], phrase, attributes) for wording, phrase, attributes in objects)
    return PAIR_TEMPLATES[template].format(first=first, second=second, background=objects[0][2]["background"])


def stated(template: str) -> list[str]:
    """The attributes that a template names."""
    names = ("shape", "colour", "motion", "background", "size")
    return [name for name in names if "{" + name + "}" in template]


def all_words() -> list[str]:
    """Every word of every caption, sorted."""
    return sorted({word for text in all_captions() for word in text.replace(",", " ").split()})


def all_captions() -> list[str]:
    """Every caption there is, in a fixed order."""
    names = ("shape", "colour", "motion", "background", "size")
    values = itertools.product(SHAPES, COLOURS, MOTIONS, BACKGROUNDS, SIZES)
    clips = [dict(zip(names, value)) for value in values]
    wordings = list(itertools.product(range(len(TEMPLATES)), range(len(MOVING_PHRASES))))
    return sorted({caption(t, p, clip) for clip in clips for t, p in wordings})
