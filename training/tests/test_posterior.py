"""The mean clip of a noisy one: against a sum over every place, and as a mean of the clips that were drawn."""
import math

import numpy as np
import pytest
import torch

from training import clips, drawing, flow, posterior
from training.drawing import OUTER
from training.formats import Format
from training.posterior import CANDIDATES

TINY = Format(3, 56, 48)


def drawn(count=3, seed=1, pairs=0.0, video=TINY):
    found = clips.draw(count, seed, clips.TRAIN, video=video, pair_share=pairs)
    return found, drawing.render(found)


def noisy_of(pixels, sigma, seed=0):
    noise = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(seed))
    return flow.noised(pixels, noise, sigma)


def uniform(batch, candidates=CANDIDATES, seed=0):
    return np.random.default_rng(seed).random((batch, 2, candidates, 5))


def moved(found, n, k, x, y):
    start = found.start.copy()
    start[n, k] += (x, y)
    return clips.dataclasses.replace(found, start=start)


def is_possible(found, n, k):
    """Whether object k of clip n lies in the frame and off the other, in every frame."""
    frames = np.arange(found.format.frames)[:, None]
    path = found.start[n, k] + frames * found.velocity[n, k]
    shape = clips.grammar.SHAPES[found.shape[n, k]]
    reach = clips.MARGIN_PX + found.radius[n, k] * drawing.EXTENT[shape] - 1e-3
    edge = np.array([found.format.width, found.format.height]) - 1
    inside = (path >= reach).all() and (path <= edge - reach).all()
    if found.shape.shape[1] == 1 or found.shape[n, 1] < 0:
        return inside
    other = found.start[n, 1 - k] + frames * found.velocity[n, 1 - k]
    outer = [found.radius[n, i] * OUTER[clips.grammar.SHAPES[found.shape[n, i]]] for i in (0, 1)]
    return inside and np.linalg.norm(path - other, axis=1).min() >= clips.GAP_PX + sum(outer) - 1e-3


@pytest.mark.parametrize("pairs,video", [(0.0, TINY), (1.0, Format(3, 56, 100))])
def test_the_mean_is_that_over_every_place(pairs, video):
    found, pixels = drawn(2, seed=5, pairs=pairs, video=video)
    assert (found.shape >= 0).all()
    sigma = torch.tensor([0.9, 0.97])
    noisy = noisy_of(pixels, sigma)
    expected = pixels.double()
    for n in range(2):
        for k in range(found.shape.shape[1]):
            total, weight = torch.zeros_like(pixels[n], dtype=torch.float64), 0.0
            steps = [range(-length + 1, length) for length in (video.width, video.height)]
            for x in steps[0]:
                for y in steps[1]:
                    other = moved(found, n, k, x, y)
                    if not is_possible(other, n, k):
                        continue
                    one = drawing.render(other.part(slice(n, n + 1)))[0].double()
                    apart = (noisy[n] - (1 - sigma[n]) * one).square().sum() - (noisy[n] - (1 - sigma[n]) * pixels[n]).square().sum()
                    chance = math.exp(-apart / (2 * sigma[n] ** 2))
                    total, weight = total + chance * one, weight + chance
            expected[n] += total / weight - pixels[n]
    got = posterior.expected(found, pixels, noisy, sigma, uniform(2, 1))
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=2e-4)
    assert (got - pixels).abs().max() > 0.05


@pytest.mark.parametrize("pairs", [0.0, 1.0])
def test_without_noise_it_is_the_clip(pairs):
    found, pixels = drawn(4, pairs=pairs, video=Format(4, 100, 100))
    sigma = torch.full((4,), 0.2)
    got = posterior.expected(found, pixels, noisy_of(pixels, sigma), sigma, uniform(4))
    torch.testing.assert_close(got, pixels, rtol=0, atol=2e-3)


@pytest.mark.parametrize("pairs,level", [(0.0, 0.9), (0.0, 0.96), (1.0, 0.93)])
def test_the_clip_differs_from_it_by_nothing_that_the_noise_tells(pairs, level):
    """The error of a mean is orthogonal to it: sum (clip - mean) * (mean - a prior one) is 0 but for chance."""
    found, pixels = drawn(96, seed=9, pairs=pairs, video=Format(3, 56, 100))
    # An object's mean is one given the background, so it can only be told apart with the background known.
    found = clips.dataclasses.replace(found, stated=[tuple([*names, "background"] for names in one) for one in found.stated])
    sigma = torch.full((96,), level)
    mean = posterior.expected(found, pixels, noisy_of(pixels, sigma), sigma, uniform(96))
    blind = posterior.expected(found, pixels, noisy_of(pixels, torch.ones(96)), torch.ones(96), uniform(96))
    product = ((pixels - mean) * (mean - blind)).flatten(1).sum(1)
    spread = product.std().item() / math.sqrt(96)
    assert abs(product.mean().item()) < 3.5 * spread
    known = (mean - blind).square().flatten(1).sum(1).mean().item()
    assert known > 4 * spread  # else the test would see nothing


def test_a_background_that_is_not_named_is_the_mean_of_all_that_explain_the_noise():
    found, pixels = drawn(24, seed=2)
    named = torch.tensor(["background" in names[0] for names in found.stated])
    assert named.any() and not named.all()
    noise = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0))
    corner = lambda x: x[:, :, :, 0, 0].mean(2)  # no object reaches it
    palette = torch.tensor(list(clips.grammar.BACKGROUNDS.values()), dtype=torch.float32) / 127.5 - 1
    backgrounds = (np.array(colour, np.float32) for colour in clips.grammar.BACKGROUNDS.values())
    scenes = [drawing.render(clips.dataclasses.replace(found, background=colour[None].repeat(24, 0))) for colour in backgrounds]
    for level in (1.0, 0.997):
        sigma = torch.full((24,), level)
        noisy = flow.noised(pixels, noise, sigma)
        got = corner(posterior.expected(found, pixels, noisy, sigma, uniform(24)))
        for n in range(24):
            others = torch.stack([scene[n] for scene in scenes])
            apart = (noisy[n] - (1 - level) * others).double().square().sum((1, 2, 3, 4)) / (2 * level**2)
            mean = (-apart).softmax(0).float() @ palette
            torch.testing.assert_close(got[n], corner(pixels)[n] if named[n] else mean, rtol=0, atol=1e-3)


def test_candidates_are_drawn_like_the_objects():
    found, _ = drawn(64, seed=3, pairs=0.5, video=Format(16, 128, 128))
    some = posterior.candidates(found, uniform(64))
    assert len(some.clip) == (found.shape >= 0).sum()
    for n, (b, k) in enumerate(zip(some.clip, some.slot)):
        one, sizes = found.objects[b][k], found.stated[b][k]
        assert some.radius[n, 0] == found.radius[b, k] and (some.velocity[n, 0] == found.velocity[b, k]).all()
        allowed = [one["size"]] if "size" in sizes else list(clips.grammar.SIZES)
        for radius in some.radius[n]:
            assert any(low - 1e-4 <= radius <= high + 1e-4 for low, high in (clips.grammar.SIZES[s] for s in allowed))
        assert (some.start[n] >= some.lowest[n] - 1e-3).all() and (some.start[n] <= some.highest[n] + 1e-3).all()
    assert len(set(some.radius[0])) == CANDIDATES
