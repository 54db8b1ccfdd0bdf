"""The detector is a measure only if it reads real clips almost without error, and nothing else."""
import pytest
import torch

from training import clips, grammar
from training.detector import NONE, detect

COUNT = 2048
REQUIRED = 0.995


@pytest.fixture(scope="module")
def real():
    drawn = clips.draw(COUNT, 11, clips.EVALUATION, held_out_share=0.3)
    frames = torch.cat([clips.to_uint8(clips.render(drawn.part(slice(i, i + 64)))) for i in range(0, COUNT, 64)])
    return drawn, frames


@pytest.fixture(scope="module")
def detected(real):
    return detect(real[1])


@pytest.mark.parametrize("attribute", ["shape", "colour", "motion", "background", "size"])
def test_real_clips_are_read_right(real, detected, attribute):
    right = sum(d.value[attribute] == a[attribute] for d, a in zip(detected, real[0].attributes))
    assert right / COUNT >= REQUIRED


def test_the_drawing_has_every_value(real):
    for attribute, table in (("shape", grammar.SHAPES), ("colour", grammar.COLOURS), ("motion", grammar.MOTIONS)):
        assert {a[attribute] for a in real[0].attributes} == set(table)


def test_it_is_deterministic_and_independent_of_the_batch(real, detected):
    again = detect(real[1][7:9])
    assert [d.value for d in again] == [d.value for d in detected[7:9]]


def test_noise_and_empty_backgrounds_have_no_object():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (4, 16, 64, 64, 3), generator=generator).to(torch.uint8)
    empty = torch.tensor(list(grammar.BACKGROUNDS.values()), dtype=torch.uint8).view(-1, 1, 1, 1, 3).expand(-1, 16, 64, 64, 3)
    grainy = empty.int() + torch.randint(-10, 11, empty.shape, generator=generator)
    for frames in (noise, empty, grainy.clamp(0, 255).to(torch.uint8)):
        for found in detect(frames.contiguous()):
            assert {found.value[k] for k in ("shape", "colour", "motion", "size")} == {NONE}
    assert [d.value["background"] for d in detect(empty.contiguous())] == list(grammar.BACKGROUNDS)


def test_what_is_not_one_object_in_all_frames_is_none(real):
    frames = real[1][:16]
    moving = [n for n in range(16) if real[0].attributes[n]["motion"] != "still"]
    vanishing = frames.clone()
    vanishing[:, 8:] = frames[:, :1, :1, :1]  # the background's colour
    assert all(d.value["shape"] == NONE for d in detect(vanishing))
    shuffled = frames[moving][:, torch.randperm(16, generator=torch.Generator().manual_seed(1))]
    assert all(d.value["motion"] != real[0].attributes[n]["motion"] for d, n in zip(detect(shuffled), moving))
    mixed = torch.cat([frames[:, :8], frames.roll(1, 0)[:, 8:]], 1)  # two clips spliced
    assert all(d.value != real[0].attributes[n] for n, d in enumerate(detect(mixed)))


def test_time_reversed_clips_move_the_other_way(real, detected):
    for forward, backward in zip(detected[:32], detect(real[1][:32].flip(1))):
        if forward.value["motion"] != "still":
            x, y = grammar.MOTIONS[forward.value["motion"]]
            assert grammar.MOTIONS[backward.value["motion"]] == pytest.approx((-x, -y))


def test_a_wrong_type_is_an_error():
    with pytest.raises(ValueError, match="frames: expected uint8"):
        detect(torch.zeros(1, 16, 64, 64, 3))
