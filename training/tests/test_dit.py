"""Training of diffusers' Wan transformer: resumption to the bit, schedule, arms, FLOPs, folders, several processes."""
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("diffusers")
pytest.importorskip("vsa_torch")
from training import folder  # noqa: E402
from training.dit import experiment, export, flops, report, train, videos  # noqa: E402
from training.dit.settings import Settings  # noqa: E402
from training.dit.trainer import Trainer  # noqa: E402
from training.tokenizer import Tokenizer  # noqa: E402
from training.workers import Workers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = Tokenizer.from_file(train.TOKENIZER)
# 4 x 8 x 8 tokens: 4 tiles.
TINY = Settings(size="tiny", patch=(4, 8, 8), steps=12, batch=2, warmup=2, sparsity=0.75)


def trainer(**change):
    settings = dataclasses.replace(TINY, **change)
    return Trainer(settings, TOKENIZER, videos.Procedural(settings), Workers("cpu"))


def losses(trained, count):
    return [trained.train_step()[0].item() for _ in range(count)]


def assert_same_weights(ours, theirs):
    for (name, a), (_, b) in zip(ours.weights().items(), theirs.weights().items(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("attention", ["dense", "vsa"])
def test_a_resumed_run_takes_the_same_steps(tmp_path, attention):
    change = dict(attention=attention, dense_steps=2, decay_steps=4)
    straight, first, second = (trainer(**change) for _ in range(3))
    expected = losses(straight, 6)
    losses(first, 3)
    first.save(tmp_path / "checkpoint.pt")
    second.load(tmp_path / "checkpoint.pt")
    assert losses(second, 3) == expected[3:]
    assert_same_weights(second, straight)
    assert second.evaluate(2, 0.5) == straight.evaluate(2, 0.5)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_other_settings_do_not_resume(tmp_path):
    trainer(seed=1).save(tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match=r"other settings: seed 1 \(now 2\)$"):
        trainer(seed=2).load(tmp_path / "checkpoint.pt")
    other = trainer(seed=1)
    other.videos.name = "3 videos"
    with pytest.raises(ValueError, match=r"other settings: data procedural clips \(now 3 videos\)$"):
        other.load(tmp_path / "checkpoint.pt")


@pytest.mark.parametrize("target, levels", [(0.9, 9), (0.6, 3), (0.7, 7), (0.875, 4), (0.3, 3), (0.95, 19)])
def test_T06_the_sparsity_reaches_its_target_exactly(target, levels):
    settings = dataclasses.replace(TINY, sparsity=target, steps=200, dense_steps=10, decay_steps=100,
                                   decay_levels=levels)
    values = [settings.sparsity_at(step) for step in range(200)]
    assert values[:10] == [0.0] * 10 and values[110:] == [target] * 90
    assert values == sorted(values) and len(set(values)) == levels + 1
    assert dataclasses.replace(settings, dense_steps=0, decay_steps=0).sparsity_at(0) == target
    assert dataclasses.replace(settings, attention="dense").sparsity_at(199) == 0.0


@pytest.mark.parametrize("change, message", [
    (dict(dense_steps=6, decay_steps=6), "reaches 0.75"), (dict(sparsity=1.0), "below 1"),
    (dict(patch=(3, 2, 2)), "divide"), (dict(attention="sparse"), "dense or vsa"), (dict(size="huge"), "size"),
    (dict(decay_levels=0), "1 level"), (dict(steps=0), "steps: expected at least 1"), (dict(seed=-1), "seed: expected"),
    (dict(batch=0), "batch: expected"), (dict(patch=(0, 8, 8)), "patch: expected three edges"),
    (dict(caption_dropout=10.0), "caption_dropout: expected a share")])
def test_settings_that_make_no_sense_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **change)


def test_arms_differ_in_attention_alone():
    dense, sparse = trainer(attention="dense"), trainer(attention="vsa")
    theirs = sparse.weights()
    gates = {name for name in theirs if "to_gate_compress" in name}
    assert len(gates) == 2 * 2 and not any(theirs[name].any() for name in gates)
    ours = dense.weights()
    assert set(ours) == set(theirs) - gates
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for a, b in zip(dense.batch(3), sparse.batch(3)):
        assert torch.equal(a, b)


def test_vsa_with_all_tiles_and_gates_at_zero_is_dense_attention():
    dense, sparse = trainer(attention="dense"), trainer(attention="vsa", sparsity=0.0)
    for trained in (dense, sparse):
        trained.networks.sparsity = 0.0
        torch.manual_seed(0)
        torch.nn.init.normal_(trained.networks.transformer.proj_out.weight)  # zero hides what attention gives
    a, b = (t.networks(*(x for i, x in enumerate(t.batch(0)) if i != 2)) for t in (dense, sparse))
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert a.abs().max() > 0.1


def test_the_loss_falls_and_the_gates_learn():
    trained = trainer(steps=40, learning_rate=3e-3)
    before = trained.evaluate(2, 0.75)
    losses(trained, 40)
    # A patch of 768 values has little room in 32 channels, so most of the noise stays.
    assert trained.evaluate(2, 0.75) < 0.9 * before
    assert all(p.any() for name, p in trained.weights().items() if "to_gate_compress.weight" in name)


def test_micro_batches_are_the_batch():
    whole, parts = trainer(batch=4), trainer(batch=4, micro_batch=2)
    torch.testing.assert_close(losses(whole, 2), losses(parts, 2))


def test_recomputation_changes_nothing():
    plain = trainer()
    again = Trainer(TINY, TOKENIZER, videos.Procedural(TINY), Workers("cpu"), recompute=True)
    assert losses(plain, 3) == losses(again, 3)
    assert_same_weights(plain, again)


def test_flops_are_those_that_pytorch_counts():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    trained = trainer(attention="dense")
    counted = flops.per_level(trained.settings, trained.networks)[0.0]
    inputs = torch.zeros(1, 3, 16, 64, 64), torch.zeros(1), torch.zeros(1, trained.networks.text_length, 16)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        trained.networks.transformer(*inputs)
    assert counted.total == counter.get_total_flops()
    assert counted.attention == 4 * 256**2 * 32 * 2 and counted.gates == 0


def test_flops_of_vsa_by_level_of_sparsity():
    trained = trainer(dense_steps=2, decay_steps=4, decay_levels=2)
    levels = flops.per_level(trained.settings, trained.networks)
    dense, coarse = 4 * 256**2 * 32 * 2, 4 * 4 * 4 * 32 * 2
    # 4 tiles: at 0.375 three are kept, ceil(2.5).
    assert {level: f.attention for level, f in levels.items()} == {
        0.0: dense + coarse, 0.375: 0.75 * dense + coarse, 0.75: 0.25 * dense + coarse}
    assert levels[0.0].gates == 2 * 32 * 32 * 256 * 2
    total = 3 * 2 * (2 * levels[0.0].attention + 2 * levels[0.0].attention + levels[0.375].attention)
    assert flops.so_far(trained.settings, levels, 5, "attention") == total


def test_the_shipped_model_in_diffusers_is_the_one_that_was_trained():
    """Its gates are found in the folder, and enable_vsa computes what training/model.py does."""
    pytest.importorskip("accelerate")  # from_pretrained of this model needs it
    from diffusers import WanTransformer3DModel
    from vsa_torch.diffusers import enable_vsa

    ours, text_encoder, tokenizer, _ = folder.read_folder(ROOT / "models/wan-toy")
    theirs = WanTransformer3DModel.from_pretrained(ROOT / "models/wan-toy/transformer")
    assert enable_vsa(theirs, sparsity=0.75).num_gates == ours.config.num_layers
    noisy = torch.randn(1, 3, 16, 64, 64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        text, timestep = text_encoder(tokenizer.encode(["a red circle moving right"])), torch.tensor([700.0])
        want = ours(noisy, timestep, text, topk=8)
        torch.testing.assert_close(theirs(noisy, timestep, text, return_dict=False)[0], want, rtol=1e-4, atol=1e-4)
    assert want.abs().max() > 1


@pytest.mark.parametrize("attention", ["dense", "vsa"])
def test_an_exported_model_is_the_trained_one(tmp_path, attention):
    trained = trainer(attention=attention, dense_steps=1, decay_steps=2)
    losses(trained, 6)
    export.write(trained, tmp_path / "model", torch.float32)
    transformer, text_encoder, tokenizer, defaults = folder.read_folder(tmp_path / "model")
    assert defaults.sparsity == (0.75 if attention == "vsa" else 0.0)
    ids, pixels, _, sigma = trained.batch(9)
    trained.networks.sparsity = defaults.sparsity
    with torch.no_grad():
        got = transformer(pixels, 1000 * sigma, text_encoder(ids), topk=1 if attention == "vsa" else None)
        want = trained.networks(ids, pixels, sigma)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert want.abs().max() > 1e-3  # the output projection begins at zero


def command(tmp_path, *options):
    args = ["--work", str(tmp_path / "run"), "--size", "tiny", "--patch", "4,8,8", "--steps", "4", "--batch", "2",
            "--device", "cpu", "--evaluation-videos", "2", *options]
    return train.parser().parse_args(args)


def test_the_command_writes_a_log_and_does_not_train_twice(tmp_path):
    last = train.run(command(tmp_path, "--sparsity", "0.5"))
    lines = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert lines[0]["settings"]["sparsity"] == 0.5 and lines[0]["tokens"] == 256 and lines[0]["parameters"] > 0
    assert lines[1]["step"] == 4 and lines[1]["training_flops"] > lines[1]["attention_flops"] > 0
    assert lines[2] == {"final_step": 4, "evaluation_loss": last["evaluation_loss"], "sparsity": 0.5}
    assert math.isfinite(last["evaluation_loss"])
    train.run(command(tmp_path, "--sparsity", "0.5"))
    again = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert again == lines


def log_of(tmp_path):
    return [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_a_signal_stops_goes_on_to_the_bit(tmp_path, monkeypatch, number):
    straight = train.run(command(tmp_path / "straight"))
    step_of = Trainer.train_step

    def interrupted(self):
        result = step_of(self)
        if self.step == 3:
            os.kill(os.getpid(), number)
        return result

    before = signal.getsignal(number)
    with monkeypatch.context() as patched, pytest.raises(SystemExit) as stopped:
        patched.setattr(Trainer, "train_step", interrupted)
        train.run(command(tmp_path))
    assert stopped.value.code == 128 + number and signal.getsignal(number) == before
    assert [entry.get("step") for entry in log_of(tmp_path)] == [None, 3]
    assert train.run(command(tmp_path))["evaluation_loss"] == straight["evaluation_loss"]
    assert [entry.get("step") for entry in log_of(tmp_path)] == [None, 3, 4, None]
    states = [torch.load(folder / "run/checkpoint.pt", weights_only=True)["networks"]
              for folder in (tmp_path, tmp_path / "straight")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])


def test_the_log_of_a_run_that_was_killed(tmp_path):
    """Before its first checkpoint: it begins anew. Within a line: that line is dropped."""
    (tmp_path / "run").mkdir()
    log = tmp_path / "run/log.jsonl"
    log.write_text('{"settings": {}}\n{"step": 2, "loss": 1.0}\n')
    train.run(command(tmp_path))
    lines = log.read_text().splitlines()
    assert [json.loads(line).get("step") for line in lines] == [None, 4, None]
    log.write_text("\n".join([*lines, '{"step": 6, "lo']))
    train.run(command(tmp_path))
    assert log.read_text().splitlines() == lines
    log.write_text("\n".join([lines[0], '{"step":', *lines[1:]]))
    with pytest.raises(ValueError, match="log.jsonl: expected json in line 2"):
        train.run(command(tmp_path))


def test_a_checkpoint_falls_on_a_line_of_the_log(tmp_path, capsys):
    with pytest.raises(SystemExit):
        command(tmp_path, "--checkpoint-interval", "30")
    assert "expected a multiple of 20, got 30" in capsys.readouterr().err


def test_runs_of_other_settings_are_not_compared(tmp_path):
    for name, batch in (("a", 2), ("b", 4)):
        train.run(command(tmp_path / name, "--batch", str(batch)))
        (tmp_path / name / "run").rename(tmp_path / f"run-{name}")
    with pytest.raises(SystemExit, match="tiny: expected runs that differ in attention and seed alone, .* of batch"):
        report.write(tmp_path)


@pytest.fixture
def video_folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(5)
    for n in range(3):
        frames = [Image.fromarray(rng.integers(0, 256, (48, 96, 3), np.uint8)) for _ in range(18)]
        frames[0].save(folder / f"{n}.gif", save_all=True, append_images=frames[1:])
        (folder / f"{n}.txt").write_text(f"video {n}\n")
    (folder / "stills").mkdir()
    for n in range(17):
        Image.new("RGB", (64, 64), (n, 0, 255)).save(folder / "stills" / f"{n:03d}.png")
    return folder


def test_a_folder_of_videos(video_folder, tmp_path, capsys):
    source = videos.Folder(video_folder, TINY, tmp_path / "cache")
    assert len(source.videos[True]) == 1 and len(source.videos[False]) == 3
    captions, pixels = source.training(8, 5, slice(2, 6), "cpu")
    assert pixels.shape == (4, 3, 16, 64, 64) and pixels.min() >= -1 and pixels.max() <= 1
    assert set(captions) <= {"", "video 0", "video 1", "video 2"}
    again = videos.Folder(video_folder, TINY, tmp_path / "cache").training(8, 5, slice(None), "cpu")
    assert again[0][2:6] == captions and torch.equal(again[1][2:6], pixels)
    assert not torch.equal(source.training(8, 6, slice(2, 6), "cpu")[1], pixels)
    still = videos.decode(video_folder / "stills", 32, 32)
    assert still.shape == (17, 32, 32, 3) and (still[3] == (3, 0, 255)).all()
    assert train.run(command(tmp_path, "--data", str(video_folder)))["final_step"] == 4
    assert "captions" not in capsys.readouterr().err
    (video_folder / "0.txt").write_text("a caption of words that the grammar of the clips has never heard of")
    with pytest.raises(ValueError, match="other settings: data 4 videos"):
        train.run(command(tmp_path, "--data", str(video_folder)))
    assert "1 of 4 captions are not told in full" in capsys.readouterr().err


def test_folders_that_do_not_serve_are_named(video_folder, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="at least 32 frames, got 18"):
        videos.Folder(video_folder, dataclasses.replace(TINY, frames=32), tmp_path / "cache")
    with pytest.raises(ValueError, match="expected a folder of videos, got .*nowhere"):
        videos.Folder(tmp_path / "nowhere", TINY, tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="at least two videos, got 0"):
        videos.Folder(tmp_path / "empty", TINY, tmp_path / "cache")
    (tmp_path / "empty/a.mp4").write_bytes(b"no video")
    monkeypatch.setattr(videos.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="the program ffmpeg, which reads a.mp4"):
        videos.Folder(tmp_path / "empty", TINY, tmp_path / "cache")


def test_two_processes_with_fsdp_train_as_one(tmp_path):
    """By torchrun on the CPU: the same losses, and a checkpoint that one process goes on from."""
    options = ["--size", "tiny", "--patch", "4,8,8", "--batch", "4", "--device", "cpu", "--evaluation-videos", "2",
               "--sparsity", "0.5", "--warmup", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}

    def run(processes, work):
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
        done = subprocess.run([sys.executable, *start, "training.dit.train", "--work", str(tmp_path / work), "--steps",
                               "3", *options], env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in (tmp_path / work / "log.jsonl").read_text().splitlines()]

    one, two = run(1, "one"), run(2, "two")
    assert (one[0]["processes"], two[0]["processes"]) == (1, 2)
    assert two[1]["loss"] == pytest.approx(one[1]["loss"], rel=1e-5)
    assert two[2]["evaluation_loss"] == pytest.approx(one[2]["evaluation_loss"], rel=1e-4)
    state = torch.load(tmp_path / "two/checkpoint.pt", weights_only=True)
    resumed = Trainer(Settings(**state["settings"]), TOKENIZER, videos.Procedural(TINY), Workers("cpu"))
    resumed.load(tmp_path / "two/checkpoint.pt")
    assert resumed.step == 3


def test_an_experiment_keeps_to_its_budget_and_reports(tmp_path, capsys):
    arguments = ["--work", str(tmp_path), "--steps", "tiny=4", "--batch", "2", "--arms", "dense,vsa0.5", "--patch",
                 "4,8,8", "--device", "cpu", "--evaluation-videos", "2"]
    experiment.main([*arguments, "--minutes", "5", "--seeds", "1,2"])
    results = json.loads((tmp_path / "results.json").read_text())
    assert [(r["arm"], r["seed"]) for r in results] == [("dense", 1), ("dense", 2), ("VSA 50.0%", 1), ("VSA 50.0%", 2)]
    assert results[0]["training_flops"] > results[2]["training_flops"]
    table = (tmp_path / "table.md").read_text()
    assert table.count("\n") == 4 and "| tiny | VSA 50.0% | 2 |" in table and "1.00000 ± 0.00000" in table
    assert (tmp_path / "loss.png").stat().st_size > 1000
    capsys.readouterr()
    experiment.main([*arguments, "--minutes", "0", "--seeds", "1,2,3"])
    assert "tiny dense seed 3: left out, " in capsys.readouterr().err
    assert len(json.loads((tmp_path / "results.json").read_text())) == 4
    with pytest.raises(ValueError, match="arms: expected dense or vsa with a sparsity"):
        experiment.main([*arguments, "--minutes", "1", "--seeds", "9", "--arms", "sparse"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("attention, compiled", [("dense", False), ("vsa", False), ("vsa", True)])
def test_on_a_gpu_in_bfloat16(tmp_path, attention, compiled):
    """Weights stay fp32, and a resumed run follows the straight one: to rounding, as PyTorch's own attention to the
    text adds gradients in no fixed order."""
    if attention == "vsa" and not torch.ops.vsa.implements("cuda", "attention_backward"):
        pytest.skip("no backward of video_sparse_attention on CUDA")
    settings = dataclasses.replace(TINY, size="10m", patch=(2, 4, 4), attention=attention)
    straight, first, second = (Trainer(settings, TOKENIZER, videos.Procedural(settings), Workers("cuda"),
                                       compiled=compiled) for _ in range(3))
    expected = losses(straight, 6)
    losses(first, 3)
    first.save(tmp_path / "checkpoint.pt")
    second.load(tmp_path / "checkpoint.pt")
    assert losses(second, 3) == pytest.approx(expected[3:], rel=1e-2)
    assert expected[-1] < expected[0] and math.isfinite(second.evaluate(2, 0.5))
    assert all(p.dtype == torch.float32 for p in second.weights().values())
