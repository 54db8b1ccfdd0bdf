"""Clips: seeds, splits, held-out combinations, geometry."""
import dataclasses

import numpy as np
import pytest
import torch

from training import clips, drawing, grammar
from training.formats import FORMATS, LONG, SMALL, WIDE
from training.tokenizer import MAX_LENGTH

PAIRS = {"video": WIDE, "pair_share": 1.0}


def named(objects):
    return {(o["shape"], o["colour"], o["motion"]) for o in objects}


def test_a_seed_names_the_same_clips_and_splits_are_disjoint():
    first, again = clips.draw(32, 5, clips.TRAIN), clips.draw(32, 5, clips.TRAIN)
    assert first.captions == again.captions and np.array_equal(first.start, again.start)
    other = clips.draw(32, 5, clips.EVALUATION)
    assert not np.isin(first.start, other.start).any()


def test_training_never_sees_a_held_out_triple():
    drawn = clips.draw(4096, 3, clips.TRAIN)
    unseen = set(clips.triples(held_out=True))
    assert 0.09 < len(unseen) / 432 < 0.11
    assert not unseen & {triple for objects in drawn.objects for triple in named(objects)}
    pairs = clips.draw(1024, 3, clips.TRAIN, **PAIRS)
    assert {len(objects) for objects in pairs.objects} == {2}
    assert not unseen & {triple for objects in pairs.objects for triple in named(objects)}
    asked = clips.draw(1024, 3, clips.EVALUATION, 0.4, **PAIRS)
    for n in (0, 1):  # each object of a pair has its own chance
        assert 0.35 < sum(bool(unseen & named(objects[n : n + 1])) for objects in asked.objects) / 1024 < 0.45
    seen = clips.triples(held_out=False)
    for i, j in ((0, 1), (0, 2), (1, 2)):  # every pair of values is seen
        pairs = {(t[i], t[j]) for t in seen}
        assert len(pairs) == len({p[0] for p in pairs}) * len({p[1] for p in pairs})


@pytest.mark.parametrize("video", FORMATS.values(), ids=str)
@pytest.mark.parametrize("pair_share", [0.0, 1.0])
def test_objects_stay_in_the_frame(video, pair_share):
    drawn = clips.draw(48, 4, clips.EVALUATION, 0.5, video, pair_share)
    frames = drawing.render(drawn)
    assert frames.shape == (48, 3, *dataclasses.astuple(video))
    border = torch.cat([frames[:, :, :, 0], frames[:, :, :, -1], frames[..., 0], frames[..., -1]], -1)
    background = torch.from_numpy(drawn.background).view(-1, 3, 1, 1) / 127.5 - 1
    torch.testing.assert_close(border, background.expand_as(border), rtol=0, atol=1e-6)


def test_colours_and_values_are_exact_inside_and_outside():
    drawn = clips.draw(32, 6, clips.EVALUATION)
    frames = drawing.to_uint8(drawing.render(drawn))
    for pixels, (clip,) in zip(frames.flatten(1, 3).int(), drawn.objects):
        # uint8 truncates, so a value may come out one lower.
        for table, name in ((grammar.COLOURS, "colour"), (grammar.BACKGROUNDS, "background")):
            wanted = torch.tensor(table[clip[name]])
            assert ((pixels - wanted).abs() <= 1).all(1).any()


def test_uint8_truncates_and_clamps():
    values = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]).view(1, 1, 1, 1, 6).expand(1, 3, 1, 1, 6)
    assert drawing.to_uint8(values)[0, 0, 0, :, 0].tolist() == [0, 0, 127, 191, 255, 255]


def test_captions_name_what_is_stated():
    drawn = clips.draw(512, 8, clips.TRAIN)
    for caption, (clip,), (stated,) in zip(drawn.captions, drawn.objects, drawn.stated):
        assert {"shape", "colour", "motion"} <= set(stated)
        for name in ("shape", "colour", "background", "size"):
            assert (clip[name] in caption.replace(",", "").split()) == (name in stated)


def test_captions_of_pairs_name_what_is_stated_of_each():
    drawn = clips.draw(512, 8, clips.TRAIN, **PAIRS)
    for caption, objects, stated in zip(drawn.captions, drawn.objects, drawn.stated):
        words = caption.replace(",", "").split()
        assert len(words) < MAX_LENGTH
        places = [words.index(o["colour"]) for o in objects]
        assert places[0] < places[1]
        assert objects[0]["background"] == objects[1]["background"]
        for clip, names, place in zip(objects, stated, places):
            assert {"shape", "colour", "motion"} <= set(names)
            assert words[place + 1] == clip["shape"]
            assert (words[place - 1] == clip["size"]) == ("size" in names)
            assert (clip["background"] in words) == ("background" in names)


def test_a_small_frame_shows_two_small_objects_where_it_has_room():
    drawn = clips.draw(256, 9, clips.TRAIN, video=SMALL, pair_share=1.0)
    pairs = [objects for objects in drawn.objects if len(objects) == 2]
    assert 160 < len(pairs) < 256
    assert {o["size"] for objects in pairs for o in objects} == {"small"}
    assert {o["motion"] for objects in pairs for o in objects} == set(grammar.MOTIONS)


@pytest.mark.parametrize("video", [SMALL, WIDE, LONG], ids=str)
def test_two_objects_never_touch_and_differ_in_colour(video):
    drawn = clips.draw(64, 9, clips.EVALUATION, 0.3, video, 1.0)
    assert all(objects[0]["colour"] != objects[-1]["colour"] for objects in drawn.objects if len(objects) == 2)
    alone = [drawn.part(slice(None)) for _ in range(2)]
    for k, one in enumerate(alone):
        one = dataclasses.replace(one, shape=np.where(np.arange(2) == k, one.shape, -1))
        pixels = drawing.render(one)
        background = torch.from_numpy(one.background).view(-1, 3, 1, 1, 1) / 127.5 - 1
        alone[k] = ((pixels - background).abs().amax(1) > 1e-4).float()
    reach = torch.nn.functional.max_pool2d(alone[0].flatten(0, 1)[:, None], 9, 1, 4)[:, 0].view_as(alone[1])
    assert not (reach * alone[1]).any()  # four pixels lie between them


def test_one_object_in_a_format_with_room_for_two_is_drawn_alone():
    mixed = clips.draw(64, 10, clips.TRAIN, video=WIDE, pair_share=0.5)
    ones = [n for n, objects in enumerate(mixed.objects) if len(objects) == 1]
    assert 16 < len(ones) < 48 and (mixed.shape[ones, 1] == -1).all()
    single = clips.draw(64, 10, clips.TRAIN, video=WIDE)
    n = ones[0]
    assert single.captions[n] == mixed.captions[n]
    assert torch.equal(drawing.render(single)[n], drawing.render(mixed)[n])
