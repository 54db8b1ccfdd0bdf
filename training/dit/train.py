"""Trains Wan's transformer with VSA or with dense attention. The same command again goes on from where it stopped.

    python -m training.dit.train --work runs/vsa --size 10m --attention vsa --sparsity 0.875 --steps 2000
    torchrun --nproc-per-node 2 -m training.dit.train ...     # several GPUs, FSDP2

Needs the package vsa_torch and diffusers. Writes checkpoint.pt and log.jsonl into the folder --work: a header, a
line for every few steps, and one at the end with the loss on videos that training never showed.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path

import torch

from training.dit import flops
from training.dit.settings import SIZES, Settings
from training.dit.trainer import Trainer
from training.dit.videos import Folder, Procedural
from training.tokenizer import Tokenizer
from training.workers import Workers

LOG_INTERVAL = 20  # steps; reading the loss waits for the device, so not every one
TOKENIZER = Path(__file__).resolve().parents[2] / "models/wan-toy/tokenizer/spiece.model"


def _tuple(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def parser() -> argparse.ArgumentParser:
    """Every field of Settings is an option."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--work", type=Path, required=True, help="folder of the checkpoint and log")
    made.add_argument("--data", type=Path, help="folder of videos with captions NAME.txt; default: procedural clips")
    made.add_argument("--tokenizer", type=Path, default=TOKENIZER)
    made.add_argument("--minutes", type=float, help="stop after these, resumable")
    made.add_argument("--checkpoint-interval", type=int, default=500, help="steps, a multiple of %d" % LOG_INTERVAL)
    made.add_argument("--evaluation-videos", type=int, default=64)
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    made.add_argument("--compile", action="store_true", help="compile the blocks")
    made.add_argument("--recompute", action="store_true", help="activation checkpointing")
    for field in dataclasses.fields(Settings):
        kind = _tuple if isinstance(field.default, tuple) else type(field.default)
        choices = SIZES if field.name == "size" else ("dense", "vsa") if field.name == "attention" else None
        made.add_argument("--" + field.name.replace("_", "-"), type=kind, default=field.default, choices=choices)
    return made


def run(args: argparse.Namespace) -> dict:
    """Trains to the end or until the minutes are over. Returns the last line of the log."""
    settings = Settings(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Settings)})
    workers = Workers(args.device)
    torch.set_float32_matmul_precision("high")  # TF32 for what autocast leaves in fp32
    videos = Folder(args.data, settings, args.work / "videos") if args.data else Procedural(settings)
    trainer = Trainer(settings, Tokenizer.from_file(args.tokenizer), videos, workers, compiled=args.compile,
                      recompute=args.recompute)
    checkpoint, log_path = args.work / "checkpoint.pt", args.work / "log.jsonl"
    seconds = 0.0
    if checkpoint.exists():
        trainer.load(checkpoint)
        seconds = _trimmed_log(log_path, trainer.step) if workers.is_first else 0.0
        print(f"resumed at step {trainer.step}", file=sys.stderr)
    args.work.mkdir(parents=True, exist_ok=True)
    with log_path.open("a") if workers.is_first else open(os.devnull, "w") as log:
        last = _run(args, trainer, log, seconds)
    workers.close()
    return last


def _run(args, trainer, log, seconds: float) -> dict:
    settings, workers, device = trainer.settings, trainer.workers, trainer.device
    if trainer.step == 0:
        _write(log, {"settings": dataclasses.asdict(settings), "parameters": trainer.num_parameters(),
                     "tokens": settings.seq_len, "processes": workers.count, "torch": torch.__version__,
                     "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu"})
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    begun, losses, entry = time.monotonic(), [], {}
    logged_at, first_step = begun, trainer.step
    while trainer.step < settings.steps:
        loss, learning_rate, sparsity = trainer.train_step()
        losses.append(loss)
        if trainer.step % LOG_INTERVAL and trainer.step < settings.steps:
            continue
        mean = torch.stack(losses).mean().item()
        if not mean < float("inf"):
            raise SystemExit(f"step {trainer.step}: the loss is {mean}; the checkpoint is older")
        now = time.monotonic()
        entry = {"step": trainer.step, "loss": mean, "learning_rate": learning_rate, "sparsity": sparsity,
                 "ms_per_step": round(1000 * (now - logged_at) / len(losses), 2),
                 "seconds": round(seconds + now - begun, 2)}
        for name, part in (("training_flops", "total"), ("attention_flops", "attention")):
            entry[name] = flops.so_far(settings, trainer.flops, trainer.step, part)
        if device.type == "cuda":
            entry["peak_memory_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
        _write(log, entry)
        left = (settings.steps - trainer.step) * (now - begun) / (trainer.step - first_step)
        if workers.is_first:
            print(f"step {trainer.step}/{settings.steps} loss {mean:.5f} {entry['ms_per_step']:.0f} ms/step, "
                  f"sparsity {sparsity:g}, {left / 60:.1f} min left", file=sys.stderr, flush=True)
        losses, logged_at = [], now
        over = workers.any(bool(args.minutes) and now - begun > 60 * args.minutes)
        if over or trainer.step % args.checkpoint_interval == 0 or trainer.step == settings.steps:
            trainer.save(args.work / "checkpoint.pt")
        if over and trainer.step < settings.steps:
            return entry
    sparsity = settings.sparsity_at(settings.steps - 1)
    final = {"final_step": trainer.step, "evaluation_loss": trainer.evaluate(args.evaluation_videos, sparsity),
             "sparsity": sparsity}
    _write(log, final)
    return entry | final


def _write(log, entry: dict) -> None:
    print(json.dumps(entry), file=log, flush=True)


def _trimmed_log(path: Path, step: int) -> float:
    """Drops what a stopped run logged after its last checkpoint, which is trained again, and a final line. Returns
    the seconds of training up to there."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    kept = [line for line in lines if "settings" in line or line.get("step", step + 1) <= step]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    return max((line.get("seconds", 0.0) for line in kept), default=0.0)


if __name__ == "__main__":
    run(parser().parse_args())
