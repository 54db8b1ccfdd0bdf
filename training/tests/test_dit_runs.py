"""The commands of training/dit: logs, interruption, several processes, the experiment and its report."""
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys

import pytest
import torch

pytest.importorskip("diffusers")
pytest.importorskip("vsa_torch")
from training.dit import experiment, report, train, videos  # noqa: E402
from training.dit.settings import Settings  # noqa: E402
from training.dit.trainer import Trainer  # noqa: E402
from training.tests.dit_support import ROOT, TINY, TOKENIZER, command  # noqa: E402
from training.workers import Workers  # noqa: E402


def log_of(tmp_path):
    return [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]


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


def test_a_run_begins_with_the_weights_of_another(tmp_path):
    """As exported, in fp16. A run that goes on takes those of its checkpoint."""
    model = str(tmp_path / "model")
    trained = train.run(command(tmp_path / "first", "--steps", "12", "--warmup", "2", "--export", model))
    still = ["--weights", model, "--steps", "1", "--learning-rate", "0"]
    begun = train.run(command(tmp_path / "second", *still))
    assert begun["evaluation_loss"] == pytest.approx(trained["evaluation_loss"], rel=1e-3)
    headers = [json.loads((tmp_path / name / "run/log.jsonl").read_text().splitlines()[0])
               for name in ("first", "second")]
    assert headers[0]["weights"] is None and len(headers[1]["weights"]) == 16
    fresh = train.run(command(tmp_path / "third", "--steps", "1", "--learning-rate", "0"))
    assert fresh["evaluation_loss"] > 1.01 * trained["evaluation_loss"]
    still[1] = str(tmp_path / "none")
    with pytest.raises(ValueError, match="weights: expected a folder with model_index.json, got .*none"):
        train.run(command(tmp_path / "fourth", *still))
    assert not (tmp_path / "fourth").exists()
    with pytest.raises(ValueError, match=r"other settings: weights [0-9a-f]{16} \(now None\)"):
        train.run(command(tmp_path / "second", *still[2:]))
    still[1] = model
    assert train.run(command(tmp_path / "second", *still))["evaluation_loss"] == begun["evaluation_loss"]


@pytest.mark.parametrize("option, value, message", [
    ("--evaluation-videos", "0", "evaluation-videos: expected at least 1, got 0"),
    ("--tokenizer", "{0}/none", "tokenizer: expected a SentencePiece model, got .*none, which is no file"),
    ("--export", "{0}/file/model", "export: expected a folder that can be made, got .*model, as .*file is no folder"),
    ("--work", "{0}/file", "work: expected a folder that can be made, got .*file"),
    ("--device", "cuda", "device: expected cpu, as PyTorch finds no GPU, got cuda")])
def test_what_cannot_work_is_told_before_training(tmp_path, monkeypatch, option, value, message):
    (tmp_path / "file").touch()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        train.run(command(tmp_path, option, value.format(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("module, options, message", [
    ("train", ["--sparsity", "1"], "train: error: [train] sparsity: expected at least 0 and below 1, got 1.0\n"),
    ("experiment", ["--minutes", "1", "--arms", "some"], "experiment: error: [experiment] arms: expected dense or vsa "
     "with a sparsity (vsa0.75), got some\n")])
def test_a_command_ends_with_a_line_and_no_traceback(tmp_path, module, options, message):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run([sys.executable, "-m", f"training.dit.{module}", "--work", str(tmp_path / "run"), *options],
                          env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.endswith(message) and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_help_says_what_every_option_is():
    for action in train.parser()._actions:
        assert action.help, action.option_strings
    assert "and the target after the last (default 4)" in " ".join(train.parser().format_help().split())


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


def test_flops_that_dense_needs_for_the_loss_of_another_run():
    def run(losses, flops):
        return {"curve": [(20 * n, flops * n, loss) for n, loss in enumerate(losses, 1)],
                "training_flops": flops * len(losses)}

    dense = run([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], 4.0)  # means of five lines: 8 after line 5, 3 after line 10
    ends_at_six = run([20, 6, 6, 6, 6, 6], 2.0)
    assert report.dense_needs(dense, ends_at_six) == 4 * 7 / 12  # six is the mean after line 7
    assert report.dense_needs(dense, run([2.9] * 5, 2.0)) == report.NEVER
    assert report.dense_needs(run([3, 1], 4.0), run([2], 2.0)) == 8 / 2  # fewer lines than a mean takes
    assert report.extent([1.739, 1.811]) == "1.74 x to 1.81 x" and report.extent([report.NEVER]) == "never"
    assert report.extent([report.NEVER, 2.0]) == "2.00 x to never"


def test_what_the_plot_of_an_experiment_shows():
    runs = [{"curve": [(20, 1.0, 0.5), (33, 1.5, 0.4), (40, 2.0, 0.3)]}, {"curve": [(20, 1.0, 0.7), (40, 2.0, 0.1)]}]
    steps, operations, losses = report.common_lines(runs)  # without the line at which the first was stopped
    assert (steps.tolist(), operations.tolist()) == ([20, 40], [1.0, 2.0])
    assert losses.tolist() == [[0.5, 0.3], [0.7, 0.1]]
    schedule = dataclasses.asdict(TINY) | {"dense_steps": 2, "decay_steps": 6, "decay_levels": 2}
    assert report.changes(schedule) == [5, 8]
    assert report.changes(schedule | {"attention": "dense"}) == []


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
