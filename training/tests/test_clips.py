"""Clips: seeds, splits, held-out combinations, geometry."""
import numpy as np
import torch

from training import clips, grammar


def test_a_seed_names_the_same_clips_and_splits_are_disjoint():
    first, again = clips.draw(32, 5, clips.TRAIN), clips.draw(32, 5, clips.TRAIN)
    assert first.captions == again.captions and np.array_equal(first.start, again.start)
    other = clips.draw(32, 5, clips.EVALUATION)
    assert not np.isin(first.start, other.start).any()


def test_training_never_sees_a_held_out_triple():
    drawn = clips.draw(4096, 3, clips.TRAIN)
    unseen = set(clips.triples(held_out=True))
    assert 0.09 < len(unseen) / 432 < 0.11
    assert not unseen & {(a["shape"], a["colour"], a["motion"]) for a in drawn.attributes}
    seen = clips.triples(held_out=False)
    for i, j in ((0, 1), (0, 2), (1, 2)):  # every pair of values is seen
        pairs = {(t[i], t[j]) for t in seen}
        assert len(pairs) == len({p[0] for p in pairs}) * len({p[1] for p in pairs})


def test_objects_stay_in_the_frame():
    drawn = clips.draw(96, 4, clips.EVALUATION, 0.5)
    frames = clips.render(drawn)
    border = torch.cat([frames[:, :, :, 0], frames[:, :, :, -1], frames[..., 0], frames[..., -1]], -1)
    background = torch.from_numpy(drawn.background).view(-1, 3, 1, 1) / 127.5 - 1
    torch.testing.assert_close(border, background.expand_as(border), rtol=0, atol=1e-6)


def test_colours_and_values_are_exact_inside_and_outside():
    drawn = clips.draw(32, 6, clips.EVALUATION)
    frames = clips.to_uint8(clips.render(drawn))
    for pixels, clip in zip(frames.flatten(1, 3).int(), drawn.attributes):
        # uint8 truncates, so a value may come out one lower.
        for table, name in ((grammar.COLOURS, "colour"), (grammar.BACKGROUNDS, "background")):
            wanted = torch.tensor(table[clip[name]])
            assert ((pixels - wanted).abs() <= 1).all(1).any()


def test_uint8_truncates_and_clamps():
    values = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]).view(1, 1, 1, 1, 6).expand(1, 3, 1, 1, 6)
    assert clips.to_uint8(values)[0, 0, 0, :, 0].tolist() == [0, 0, 127, 191, 255, 255]


def test_captions_name_what_is_stated():
    drawn = clips.draw(512, 8, clips.TRAIN)
    for caption, clip, stated in zip(drawn.captions, drawn.attributes, drawn.stated):
        assert {"shape", "colour", "motion"} <= set(stated)
        for name in ("shape", "colour", "background", "size"):
            assert (clip[name] in caption.replace(",", "").split()) == (name in stated)
