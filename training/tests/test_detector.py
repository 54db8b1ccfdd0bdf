"""The detector is a measure only if it reads real clips almost without error, and nothing else."""
import pytest
import torch

from training import clips, drawing, grammar
from training.detector import ATTRIBUTES, NONE, detect
from training.formats import LONG, SMALL, WIDE
from training.judge import compare

REQUIRED = 0.995
# (format, share of clips with two objects): how many clips
COUNTS = {(SMALL, 0.0): 1024, (WIDE, 0.0): 128, (WIDE, 1.0): 128, (LONG, 0.5): 64}


def frames_of(drawn):
    count = len(drawn.captions)
    parts = (drawn.part(slice(i, i + 16)) for i in range(0, count, 16))
    return torch.cat([drawing.to_uint8(drawing.render(part)) for part in parts])


@pytest.fixture(scope="module", params=COUNTS, ids=lambda key: f"{key[0]}-{key[1]}")
def read(request):
    """What was drawn, and what is seen in it."""
    drawn = clips.draw(COUNTS[request.param], 11, clips.EVALUATION, 0.3, *request.param)
    parts = (drawn.part(slice(i, i + 64)) for i in range(0, COUNTS[request.param], 64))
    return drawn, [scene for part in parts for scene in detect(frames_of(part))]


@pytest.fixture(scope="module")
def small():
    drawn = clips.draw(32, 12, clips.EVALUATION, 0.3)
    return drawn, frames_of(drawn)


@pytest.fixture(scope="module")
def pairs():
    drawn = clips.draw(16, 13, clips.EVALUATION, 0.3, WIDE, 1.0)
    return drawn, frames_of(drawn)


def all_right(scene, objects):
    return all(all(right.values()) for right in compare(scene, objects))


@pytest.mark.parametrize("attribute", [*ATTRIBUTES, "background"])
def test_real_clips_are_read_right(read, attribute):
    drawn, scenes = read
    right = [
        all(one[attribute] for one in compare(scene, [{attribute: o[attribute]} for o in objects]))
        for scene, objects in zip(scenes, drawn.objects)
    ]
    assert sum(right) / len(right) >= REQUIRED


def test_real_clips_are_read_whole(read):
    drawn, scenes = read
    right = [all_right(scene, objects) for scene, objects in zip(scenes, drawn.objects)]
    assert sum(right) / len(right) >= REQUIRED


def test_the_drawing_has_every_value():
    drawn = clips.draw(512, 11, clips.EVALUATION, 0.3, WIDE, 1.0)
    for n in (0, 1):
        for attribute, table in (("shape", grammar.SHAPES), ("colour", grammar.COLOURS), ("motion", grammar.MOTIONS)):
            assert {objects[n][attribute] for objects in drawn.objects} == set(table)


def test_it_is_deterministic_and_independent_of_the_batch(small, pairs):
    for _, frames in (small, pairs):
        scenes = detect(frames)
        again = detect(frames[7:9])
        assert [(s.background, [o.value for o in s.objects]) for s in again] == [
            (s.background, [o.value for o in s.objects]) for s in scenes[7:9]
        ]


@pytest.mark.parametrize("video", [SMALL, WIDE], ids=str)
def test_noise_and_empty_backgrounds_have_no_object(video):
    generator = torch.Generator().manual_seed(0)
    shape = (video.frames, video.height, video.width, 3)
    noise = torch.randint(0, 256, (4, *shape), generator=generator).to(torch.uint8)
    empty = torch.tensor(list(grammar.BACKGROUNDS.values()), dtype=torch.uint8).view(-1, 1, 1, 1, 3).expand(-1, *shape)
    grainy = (empty.int() + torch.randint(-10, 11, empty.shape, generator=generator)).clamp(0, 255).to(torch.uint8)
    for frames in (noise, empty, grainy):
        assert all(scene.objects == () for scene in detect(frames.contiguous()))
    for frames in (empty, grainy):
        assert [scene.background for scene in detect(frames.contiguous())] == list(grammar.BACKGROUNDS)


def test_grain_and_soft_edges_change_nothing(pairs):
    drawn, frames = pairs
    generator = torch.Generator().manual_seed(1)
    grainy = (frames.int() + torch.randint(-12, 13, frames.shape, generator=generator)).clamp(0, 255).to(torch.uint8)
    soft = torch.nn.functional.avg_pool2d(frames.flatten(0, 1).permute(0, 3, 1, 2).float(), 3, 1, 1, count_include_pad=False)
    soft = soft.permute(0, 2, 3, 1).unflatten(0, frames.shape[:2]).to(torch.uint8)
    for changed in (grainy, soft):
        assert all(all_right(scene, objects) for scene, objects in zip(detect(changed), drawn.objects))


def without(drawn, k):
    """The clips with object k painted over by the background."""
    alone = drawn.part(slice(None))
    alone.shape[:, k] = -1
    return frames_of(alone)


def test_a_missing_object_is_noticed():
    drawn = clips.draw(16, 13, clips.EVALUATION, 0.3, WIDE, 1.0)
    for scene, objects in zip(detect(without(drawn, 1)), drawn.objects):
        assert len(scene.objects) == 1 and all_right(scene, objects[:1])
        assert not any(right["shape"] for right in compare(scene, objects))


def test_swapped_colours_are_noticed(pairs):
    drawn, _ = pairs
    swapped = clips.draw(16, 13, clips.EVALUATION, 0.3, WIDE, 1.0)
    swapped.colour[:] = swapped.colour[:, ::-1].copy()
    for scene, objects in zip(detect(frames_of(swapped)), drawn.objects):
        first, second = objects
        exchanged = [{**first, "colour": second["colour"]}, {**second, "colour": first["colour"]}]
        assert all_right(scene, exchanged)
        alike = all(first[name] == second[name] for name in ("shape", "motion", "size"))
        assert all_right(scene, objects) == alike


def test_three_objects_are_no_pair(pairs):
    """A square is painted into the corner that is farthest from both objects."""
    drawn, frames = pairs
    crowded = frames.clone()
    for clip, objects in zip(crowded, drawn.objects):
        colour = next(c for name, c in grammar.COLOURS.items() if name not in {o["colour"] for o in objects})
        is_plain = (clip == clip[:1, :1, :1]).all(-1).all(0)
        corners = [(slice(y, y + 16), slice(x, x + 16)) for y in (2, 110) for x in (2, 110)]
        place = next(corner for corner in corners if is_plain[corner].all())
        clip[:, place[0], place[1]] = torch.tensor(colour, dtype=torch.uint8)
    for scene, objects in zip(detect(crowded), drawn.objects):
        assert len(scene.objects) == 3
        assert not any(right["shape"] for right in compare(scene, objects))


def test_two_objects_of_one_colour_are_none(pairs):
    drawn, _ = pairs
    same = clips.draw(16, 13, clips.EVALUATION, 0.3, WIDE, 1.0)
    same.colour[:, 1] = same.colour[:, 0]
    for scene, objects in zip(detect(frames_of(same)), drawn.objects):
        assert [found.value["shape"] for found in scene.objects] == [NONE]
        assert not all_right(scene, objects[:1])


def test_what_is_not_one_object_in_all_frames_is_none(small):
    drawn, frames = small[0], small[1][:16]
    objects = [o for (o,) in drawn.objects[:16]]
    moving = [n for n in range(16) if objects[n]["motion"] != "still"]
    vanishing = frames.clone()
    vanishing[:, 8:] = frames[:, :1, :1, :1]  # the background's colour
    assert all(found.value["shape"] == NONE for scene in detect(vanishing) for found in scene.objects)
    shuffled = frames[moving][:, torch.randperm(16, generator=torch.Generator().manual_seed(1))]
    for scene, n in zip(detect(shuffled), moving):
        assert not all_right(scene, [{"motion": objects[n]["motion"]}])
    mixed = torch.cat([frames[:, :8], frames.roll(1, 0)[:, 8:]], 1)  # two clips spliced
    assert all(not all_right(scene, [objects[n]]) for n, scene in enumerate(detect(mixed)))


def test_time_reversed_clips_move_the_other_way(small):
    drawn, frames = small
    for scene, (shown,) in zip(detect(frames.flip(1)), drawn.objects):
        if shown["motion"] != "still":
            x, y = grammar.MOTIONS[shown["motion"]]
            assert grammar.MOTIONS[scene.objects[0].value["motion"]] == pytest.approx((-x, -y))


def test_a_wrong_type_is_an_error():
    with pytest.raises(ValueError, match="frames: expected uint8"):
        detect(torch.zeros(1, 16, 64, 64, 3))
