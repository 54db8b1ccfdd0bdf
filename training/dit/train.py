"""Trains Wan's transformer with VSA or with dense attention.

The same command again goes on from where it stopped, by Ctrl-C or SIGTERM, too.

    python -m training.dit.train --work runs/vsa --size 10m --attention vsa --sparsity 0.875 --steps 2000
    torchrun --nproc-per-node 2 -m training.dit.train ...     # several GPUs, FSDP2

Needs the package vsa_torch and diffusers. Writes checkpoint.pt and log.jsonl into the folder --work: a header, a
line for every few steps, and one at the end with the loss on videos that training never showed.
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from pathlib import Path

import torch

from training.dit import command, flops, model_folder
from training.dit import log as log_file
from training.dit.interrupt import Stop
from training.dit.settings import SIZES, Settings
from training.dit.trainer import Trainer
from training.dit.videos import Folder, Procedural
from training.tokenizer import MAX_LENGTH, Tokenizer
from training.workers import Workers

LOG_INTERVAL = 20  # steps; reading the loss waits for the device, and processes agree to stop, so not every one
TOKENIZER = Path(__file__).resolve().parents[2] / "models/wan-toy/tokenizer/spiece.model"


def _tuple(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _interval(text: str) -> int:
    steps = int(text)
    if steps < 1 or steps % LOG_INTERVAL:
        raise argparse.ArgumentTypeError(f"expected a multiple of {LOG_INTERVAL}, got {text}")
    return steps


def parser() -> argparse.ArgumentParser:
    """Every field of Settings is an option."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--work", type=Path, required=True, help="folder of the checkpoint and log")
    made.add_argument("--data", type=Path, help="folder of videos with captions NAME.txt; default: procedural clips")
    made.add_argument("--tokenizer", type=Path, default=TOKENIZER, help="SentencePiece model; default: that of the "
                      "procedural clips")
    made.add_argument("--weights", type=Path, help="begin with those of a model folder, such as one of --export; a run "
                      "that goes on has its checkpoint's, and is refused with others here")
    made.add_argument("--export", type=Path, help="at the end, write a model folder for `vsa generate`")
    made.add_argument("--minutes", type=float, help="stop after these, resumable")
    made.add_argument("--checkpoint-interval", type=_interval, default=500, help=f"steps, a multiple of {LOG_INTERVAL} "
                      "(default 500)")
    made.add_argument("--evaluation-videos", type=int, default=64,
                      help="that training never shows, for the loss at the end (default 64)")
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu",
                      help="default: cuda where there is a GPU")
    made.add_argument("--compile", action="store_true", help="compile the blocks")
    made.add_argument("--recompute", action="store_true", help="activation checkpointing")
    for field in dataclasses.fields(Settings):
        kind = _tuple if isinstance(field.default, tuple) else type(field.default)
        choices = SIZES if field.name == "size" else ("dense", "vsa") if field.name == "attention" else None
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        made.add_argument("--" + field.name.replace("_", "-"), type=kind, default=field.default, choices=choices,
                          help=f"{field.metadata['help']} (default {default})")
    return made


def check(args: argparse.Namespace) -> None:
    """What would else fail late, or after something was written. Raises ValueError."""
    if args.evaluation_videos < 1:
        raise ValueError(f"[train] evaluation-videos: expected at least 1, got {args.evaluation_videos}")
    if not args.tokenizer.is_file():
        raise ValueError(f"[train] tokenizer: expected a SentencePiece model, got {args.tokenizer}, which is no file")
    if args.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("[train] device: expected cpu, as PyTorch finds no GPU, got cuda")
    for name in ("work", "export"):
        path = getattr(args, name)
        if path:
            there = next(p for p in (path, *path.parents) if p.exists())
            if not there.is_dir() or not os.access(there, os.W_OK):
                raise ValueError(f"[train] {name}: expected a folder that can be made, got {path}, as {there} is no "
                                 "folder to write in")


def run(args: argparse.Namespace) -> dict:
    """Trains to the end or until the minutes are over. Returns the last line of the log.

    After SIGINT or SIGTERM it saves, and raises SystemExit with 128 + the signal's number.
    """
    settings = Settings(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Settings)})
    check(args)
    tokenizer, checkpoint = Tokenizer.from_file(args.tokenizer), args.work / "checkpoint.pt"
    begun_with = model_folder.identity(args.weights) if args.weights else None
    weights = model_folder.read(settings, tokenizer, args.weights) if begun_with and not checkpoint.exists() else None
    workers = Workers(args.device)
    torch.set_float32_matmul_precision("high")  # TF32 for what autocast leaves in fp32
    videos = Folder(args.data, settings, args.work / "videos") if args.data else Procedural(settings)
    lost = sum(map(tokenizer.loses, videos.captions)) if args.data else 0
    if lost and workers.is_first:
        print(f"{lost} of {len(videos.captions)} captions are not told in full: {args.tokenizer} needs more than "
              f"{MAX_LENGTH} tokens for them, or lacks a character; --tokenizer takes a SentencePiece model of your "
              "own", file=sys.stderr)
    trainer = Trainer(settings, tokenizer, videos, workers, compiled=args.compile, recompute=args.recompute,
                      begun_with=begun_with)
    log_path = args.work / "log.jsonl"
    args.work.mkdir(parents=True, exist_ok=True)
    if checkpoint.exists():
        trainer.load(checkpoint)
        if workers.is_first:
            print(f"resumed at step {trainer.step}", file=sys.stderr)
    elif weights:
        trainer.set_weights(weights)
    seconds = log_file.trim(log_path, trainer.step) if workers.is_first else 0.0
    with open(log_path if workers.is_first else os.devnull, "a") as log, Stop(workers.count == 1) as stop:
        last = _run(args, trainer, log, seconds, stop)
    if args.export and "final_step" in last:
        model_folder.write(trainer, args.export)
    workers.close()
    if stop.signal and "final_step" not in last:
        if workers.is_first:
            print(f"stopped at step {trainer.step}; the same command goes on from there", file=sys.stderr)
        raise SystemExit(128 + stop.signal)
    return last


def _run(args, trainer, log, seconds: float, stop: Stop) -> dict:
    settings, workers, device = trainer.settings, trainer.workers, trainer.device
    if log.tell() == 0:
        name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
        log_file.write(log, {"settings": dataclasses.asdict(settings), "parameters": trainer.num_parameters(),
                             "tokens": settings.seq_len, "data": trainer.videos.name,
                             "weights": trainer.begun_with, "processes": workers.count, "torch": torch.__version__,
                             "device": name})
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    begun, losses, entry = time.monotonic(), [], {}
    logged_at, first_step = begun, trainer.step

    def is_over() -> bool:
        return bool(stop.signal) or bool(args.minutes) and time.monotonic() - begun > 60 * args.minutes

    while trainer.step < settings.steps:
        loss, learning_rate, sparsity = trainer.train_step()
        losses.append(loss)
        is_due = trainer.step % LOG_INTERVAL == 0 or trainer.step == settings.steps
        over = (is_due or workers.count == 1) and workers.any(is_over())
        if not is_due and not over:
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
        log_file.write(log, entry)
        left = (settings.steps - trainer.step) * (now - begun) / (trainer.step - first_step)
        if workers.is_first:
            print(f"step {trainer.step}/{settings.steps} loss {mean:.5f} {entry['ms_per_step']:.0f} ms/step, "
                  f"sparsity {sparsity:g}, {left / 60:.1f} min left", file=sys.stderr, flush=True)
        losses, logged_at = [], now
        if over or trainer.step % args.checkpoint_interval == 0 or trainer.step == settings.steps:
            trainer.save(args.work / "checkpoint.pt")
        if over and trainer.step < settings.steps:
            return entry
    sparsity = settings.sparsity_at(settings.steps - 1)
    final = {"final_step": trainer.step, "evaluation_loss": trainer.evaluate(args.evaluation_videos, sparsity),
             "sparsity": sparsity}
    log_file.write(log, final)
    if workers.is_first:
        print(f"loss on {args.evaluation_videos} other videos at sparsity {sparsity:g}: "
              f"{final['evaluation_loss']:.5f}", file=sys.stderr)
    return entry | final


if __name__ == "__main__":
    command.main("train", lambda: run(parser().parse_args()))
