"""Training: schedule, resumption, several processes' parts, and that the loss falls."""
import argparse
from pathlib import Path

import pytest
import torch

from training import flow, tries
from training.formats import LONG, SMALL, WIDE
from training.model import WanConfig
from training.schedule import SPARSITIES, STAGES, Part, Schedule
from training.text_encoder import UMT5Config
from training.tokenizer import Tokenizer
from training.trainer import Settings, Trainer
from training.workers import Workers

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = Tokenizer.from_file(ROOT / "models/wan-toy/tokenizer/spiece.model")


PARTS = tuple(Part(video, 1 / 3, ((0.5, 0.5), (0.75, 0.5)), pair_share=pairs)
              for video, pairs in ((SMALL, 0.0), (WIDE, 0.5), (LONG, 0.5)))


def make_trainer(steps=12, batch=2, seed=1, parts=(), **schedule):
    settings = Settings(
        Schedule(steps, warmup=2, parts=parts, batch=batch, **schedule),
        seed=seed,
        transformer=WanConfig(num_layers=1, num_attention_heads=1, attention_head_dim=16, ffn_dim=16, text_dim=16, freq_dim=16),
        text_encoder=UMT5Config(d_model=16, num_heads=2, d_kv=8, d_ff=16, num_layers=1),
    )
    return Trainer(settings, TOKENIZER, Workers("cpu"), compiled=False)


def losses(trainer, count):
    return [trainer.train_step()[0].item() for _ in range(count)]


@pytest.mark.parametrize("schedule", [{}, {"optimizer": "muon", "target": "mean"}])
def test_a_resumed_run_takes_the_same_steps(tmp_path, schedule):
    straight = make_trainer(**schedule)
    expected = losses(straight, 6)
    first = make_trainer(**schedule)
    losses(first, 3)
    first.save(tmp_path / "checkpoint.pt")
    second = make_trainer(**schedule)
    second.load(tmp_path / "checkpoint.pt")
    assert losses(second, 3) == expected[3:]
    for ours, theirs in zip(second.averaged.parameters(), straight.averaged.parameters()):
        assert torch.equal(ours, theirs)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_other_settings_do_not_resume(tmp_path):
    make_trainer(seed=1).save(tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="other settings"):
        make_trainer(seed=2).load(tmp_path / "checkpoint.pt")


@pytest.mark.parametrize("target", ["clip", "mean"])
def test_the_parts_of_two_processes_are_the_batch(target):
    trainer = make_trainer(batch=4, target=target)
    whole = trainer.batch(5)
    parts = []
    for rank in (0, 1):
        trainer.workers.rank, trainer.workers.count = rank, 2
        parts.append(trainer.batch(5))
    for n in range(4):
        torch.testing.assert_close(torch.cat([part[n] for part in parts]), whole[n], rtol=0, atol=1e-4)
    assert parts[0][4] == parts[1][4] == whole[4]


def test_steps_of_all_formats_have_as_many_tokens():
    trainer = make_trainer(batch=8, parts=PARTS)
    seen = {}
    for step in range(24):
        ids, noisy, velocity, sigma, sparsity = trainer.batch(step)
        assert noisy.shape == velocity.shape and len(ids) == len(sigma) == len(noisy)
        assert noisy.numel() == 8 * 3 * 16 * 64 * 64
        seen.setdefault(noisy.shape[2:], set()).add(sparsity)
        assert all(torch.equal(a, b) for a, b in zip(trainer.batch(step)[:4], (ids, noisy, velocity, sigma)))
    assert set(seen) == {(16, 64, 64), (16, 128, 128), (32, 128, 128)}
    assert set.union(*seen.values()) == {0.5, 0.75}


def test_a_step_of_every_format_is_taken():
    trainer = make_trainer(batch=8, parts=PARTS)
    steps = [trainer.train_step() for _ in range(6)]
    assert {step.video for step in steps} == {SMALL, WIDE, LONG}
    assert all(step.loss.isfinite() for step in steps)


def test_the_stages_that_mix_formats():
    for name in ("fifth", "sixth", "seventh", "eighth"):
        parts = STAGES[name].parts
        assert sum(part.share for part in parts) == pytest.approx(1)
        for part in parts:
            assert sum(chance for _, chance in part.sparsities) == pytest.approx(1)
            assert part.sparsity_at(0.0) == part.sparsities[0][0] and part.sparsity_at(0.9999) == part.sparsities[-1][0]
        assert STAGES[name].part_at(0.0).video == parts[0].video and STAGES[name].part_at(0.9999).video == parts[-1].video


def test_steps_differ():
    trainer = make_trainer()
    assert not torch.equal(trainer.batch(0)[1], trainer.batch(1)[1])
    assert not torch.equal(trainer.batch(0)[2], trainer.batch(1)[2])


def test_everything_that_has_a_gradient_is_trained():
    trainer = make_trainer(steps=12)
    before = {name: p.clone() for name, p in trainer.networks.named_parameters()}
    losses(trainer, 6)
    unchanged = {n for n, p in trainer.networks.named_parameters() if torch.equal(p, before[n])}
    assert not unchanged


def test_the_loss_falls():
    trainer = make_trainer(steps=40, batch=2)
    found = losses(trainer, 40)
    assert sum(found[-10:]) < 0.9 * sum(found[:10])


def test_tries_leave_the_weights_and_take_the_best():
    trainer = make_trainer(batch=2, learning_rate=1e-3, final_learning_rate=1e-4)
    before = {name: p.clone() for name, p in trainer.networks.state_dict().items()}
    found = tries.run(trainer, [("adamw", 1e-9), ("muon", 5e-3)], steps=8, last=2)
    assert [one["optimizer"] for one in found] == ["muon", "adamw"] and found[0]["loss"] < found[1]["loss"]
    for networks in (trainer.networks, trainer.averaged):
        assert all(torch.equal(p, before[name]) for name, p in networks.state_dict().items())
    schedule = trainer.settings.schedule
    assert (schedule.optimizer, schedule.learning_rate, schedule.steps, trainer.step) == ("muon", 5e-3, 12, 0)
    assert schedule.final_learning_rate == pytest.approx(5e-4)


def test_tries_are_named_on_the_command_line():
    assert tries.parse("adamw:6e-4,muon:1e-3") == [("adamw", 6e-4), ("muon", 1e-3)]
    with pytest.raises(argparse.ArgumentTypeError, match="expected adamw:RATE"):
        tries.parse("sgd:1")


def test_schedule():
    schedule = Schedule(1000, learning_rate=1e-3, final_learning_rate=1e-5, warmup=10)
    rates = [schedule.learning_rate_at(step) for step in range(1001)]
    assert rates[0] == 1e-4 and rates[10] == 1e-3 and rates[1000] == pytest.approx(1e-5)
    assert all(a >= b for a, b in zip(rates[10:], rates[11:]))
    assert schedule.sparsity_at(0, 0.99) == 0.0
    draws = [schedule.sparsity_at(999, (n + 0.5) / 1000) for n in range(1000)]
    assert set(draws) == set(SPARSITIES)


def test_noise_levels():
    assert flow.euler_sigmas(4)[0] == 1.0 and flow.euler_sigmas(4)[-1] == 0.0
    assert flow.shifted(0.5, 1.0) == 0.5
    assert flow.shifted(0.5, 2.0) == pytest.approx(2 / 3)
    sigma = flow.random_sigmas(20000, 2.0, torch.Generator().manual_seed(0))
    assert ((sigma > 0) & (sigma < 1)).all()
    assert sigma.median().item() == pytest.approx(2 / 3, abs=0.01)


class ExactVelocity(torch.nn.Module):
    """The velocity field of a data set of one clip, by prompt."""

    def __init__(self, target):
        super().__init__()
        self.target = target

    def forward(self, x, timestep, text, topk):
        sigma = (timestep / 1000).view(-1, 1, 1, 1, 1)
        return (x - self.target[text[:, 0, 0].long()]) / sigma


def test_the_sampler_reaches_the_clip_that_the_field_points_to():
    target = torch.stack([torch.full((3, 2, 4, 4), value) for value in (-0.5, 0.25)])
    text = lambda ids: ids[..., None].float()
    noise = torch.randn(2, 3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    ids, empty = torch.ones(2, 3, dtype=torch.int64), torch.zeros(1, 3, dtype=torch.int64)
    for guidance, expected in ((1.0, 0.25), (0.0, -0.5), (2.0, 1.0)):
        out = flow.sample(ExactVelocity(target), text, ids, empty, noise, 5, guidance, None)
        torch.testing.assert_close(out, torch.full_like(out, expected), rtol=0, atol=1e-5)


def test_the_denoising_loss_of_the_exact_field_is_zero():
    target = torch.full((1, 3, 2, 4, 4), 0.3)
    noise = torch.randn(target.shape)
    text = torch.zeros(1, 1, 1)
    loss = flow.denoising_loss(ExactVelocity(target), text, target, noise, torch.tensor([0.7]), None)
    assert loss.item() < 1e-10
