"""What counts as right."""
from training import clips, drawing, judge
from training.detector import Found, Scene
from training.formats import SMALL, WIDE
from training.prompts import make_prompts, read_prompts, write_prompts

RED = {"shape": "circle", "colour": "red", "motion": "right", "size": "large"}
BLUE = {"shape": "star", "colour": "blue", "motion": "still", "size": "small"}


def scene(*objects, background="gray"):
    return Scene(background, tuple(Found(value, dict.fromkeys(value, 1.0)) for value in objects))


def test_objects_are_compared_in_the_order_that_suits():
    for shown in ((RED, BLUE), (BLUE, RED)):
        assert judge.compare(scene(*shown), [{"colour": "red", "shape": "circle"}, {"colour": "blue"}]) == [
            {"colour": True, "shape": True}, {"colour": True}]


def test_an_exchanged_attribute_is_wrong():
    wanted = [{**RED, "shape": "star"}, {**BLUE, "shape": "circle"}]
    right = judge.compare(scene(RED, BLUE), wanted)
    assert [one["shape"] for one in right] == [False, False] and all(one["colour"] for one in right)


def test_another_number_of_objects_is_wrong():
    for shown in ((), (RED,), (RED, BLUE, RED)):
        right = judge.compare(scene(*shown), [{**RED, "background": "gray"}, BLUE])
        assert not any(one["colour"] or one["shape"] for one in right) and right[0]["background"]
    assert not judge.compare(scene(RED, BLUE), [RED])[0]["shape"]


def test_real_clips_of_prompts_are_right_and_others_wrong():
    for video, pairs in ((SMALL, 0.0), (WIDE, 0.5)):
        prompts = make_prompts(24, 5, video, pairs)
        drawn = clips.draw(24, 5, clips.EVALUATION, 0.4, video, pairs)
        assert [p.prompt for p in prompts] == drawn.captions and {p.format for p in prompts} == {video}
        frames = drawing.to_uint8(drawing.render(drawn))
        found = judge.summary(judge.judge(frames, prompts))
        assert found["total"]["all_stated"] == 1
        assert found["two_objects"]["clips"] == sum(len(p.objects) == 2 for p in prompts)
        assert judge.summary(judge.judge(frames.roll(1, 0), prompts))["total"]["all"] < 0.1


def test_prompts_come_back_from_their_file(tmp_path):
    prompts = make_prompts(8, 6, WIDE, 0.5)
    write_prompts(tmp_path / "prompts.json", prompts)
    assert read_prompts(tmp_path / "prompts.json") == prompts and prompts[0].size == "128x128"
