"""Trains wan-toy. Stops when its minutes are over; the same command again goes on from there.

    python -m training.train --stage first --work runs/first --export runs/first/model
    python -m training.train --stage fifth --operator vsa_torch --weights models/wan-toy --work runs/fifth \\
        --export runs/fifth/model
With `torchrun --nproc-per-node 2 -m` in place of `python -m`, on two GPUs.
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

from training import folder, tries
from training.schedule import STAGES
from training.tokenizer import Tokenizer
from training.trainer import Settings, Trainer
from training.workers import Workers

LOG_INTERVAL = 20  # steps; reading the loss waits for the device, so not every one
CHECKPOINT_INTERVAL = 1000  # a multiple of the above; the default
DEFAULTS = folder.Defaults(steps=10, guidance=1.0)


def _trimmed_log(path: Path, step: int) -> None:
    """Drops what a stopped run logged after its last checkpoint: it is trained again."""
    if path.exists():
        lines = [line for line in path.read_text().splitlines() if json.loads(line)["step"] <= step]
        path.write_text("".join(line + "\n" for line in lines))


def _settings(args: argparse.Namespace) -> Settings:
    names = ("steps", "batch", "optimizer", "learning_rate")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    schedule = dataclasses.replace(STAGES[args.stage], **given)
    if args.pair_share is not None:
        parts = tuple(dataclasses.replace(part, pair_share=args.pair_share) for part in schedule.parts)
        schedule = dataclasses.replace(schedule, parts=parts)
    return Settings(schedule, seed=args.seed)


def _attention(args: argparse.Namespace):
    """None for that of training/attention.py."""
    if args.operator == "pytorch":
        return None
    from training.operator import attention  # the only part that needs the package vsa_torch

    return attention


def run(args: argparse.Namespace) -> Trainer:
    begun, workers = time.monotonic(), Workers(args.device)
    torch.set_float32_matmul_precision("high")  # TF32 for what autocast leaves in fp32
    tokenizer = Tokenizer.from_file(args.tokenizer)
    trainer = Trainer(_settings(args), tokenizer, workers, compiled=not args.no_compile, attention=_attention(args))
    checkpoint, log_path = args.work / "checkpoint.pt", args.work / "log.jsonl"
    if checkpoint.exists():
        trainer.load(checkpoint)
        print(f"resumed at step {trainer.step}", file=sys.stderr)
    elif args.weights:
        transformer, text_encoder, _, _ = folder.read_folder(args.weights)
        trainer.start_from(transformer, text_encoder)
    args.work.mkdir(parents=True, exist_ok=True)
    if args.tries and not trainer.step:
        found = json.dumps(tries.run(trainer, args.tries))
        (args.work / "tries.json").write_text(found + "\n")
        print(f"tried: {found}", file=sys.stderr, flush=True)
    total = trainer.settings.schedule.steps
    if workers.is_first:
        _trimmed_log(log_path, trainer.step)

    start, last, first_step = time.monotonic(), time.monotonic(), trainer.step
    losses: list[torch.Tensor] = []
    by_kind: dict[tuple[str, str], list[torch.Tensor]] = {}
    with log_path.open("a") if workers.is_first else open(os.devnull, "w") as log:
        while trainer.step < total:
            step = trainer.train_step()
            losses.append(step.loss)
            by_kind.setdefault((str(step.video), str(step.sparsity)), []).append(step.loss)
            if trainer.step % LOG_INTERVAL and trainer.step < total:
                continue
            mean = torch.stack(losses).mean().item()
            if not mean < float("inf"):
                raise SystemExit(f"step {trainer.step}: the loss is {mean}; the checkpoint is older")
            now = time.monotonic()
            ms = 1000 * (now - last) / len(losses)
            entry = {"step": trainer.step, "loss": mean, "learning_rate": step.learning_rate}
            entry |= {"ms_per_step": round(ms, 2), "seconds": round(now - start, 1), "loss_at": {}}
            for (video, level), part in sorted(by_kind.items()):
                entry["loss_at"].setdefault(video, {})[level] = torch.stack(part).mean().item()
            print(json.dumps(entry), file=log, flush=True)
            left = (total - trainer.step) * (now - start) / (trainer.step - first_step)
            if workers.is_first and trainer.step % args.progress == 0:
                progress = f"step {trainer.step}/{total} loss {mean:.5f} {ms:.0f} ms/step"
                print(f"{progress}, {left / 60:.1f} min left", file=sys.stderr, flush=True)
            losses, by_kind, last = [], {}, now
            if workers.is_first and trainer.step % args.checkpoint_interval == 0:
                trainer.save(checkpoint)
                _export(trainer, args)
            if args.fill:
                total = trainer.step + int((60 * args.minutes - (now - begun)) / ((now - start) / (trainer.step - first_step)))
                trainer.change(steps=max(total, trainer.step))
            if workers.any(bool(args.minutes) and now - begun > 60 * args.minutes):
                break
    if workers.is_first:
        trainer.save(checkpoint)
    workers.close()
    return trainer


def _export(trainer: Trainer, args: argparse.Namespace) -> None:
    """The averaged weights so far as a model folder, where one is asked for."""
    if args.export:
        averaged = trainer.averaged
        folder.write_folder(
            args.export, averaged.transformer, averaged.text_encoder, trainer.tokenizer, DEFAULTS,
            videos=tuple(part.video for part in trainer.settings.schedule.parts),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint and log")
    parser.add_argument("--export", type=Path, help="write the averaged weights as a model folder")
    tokenizer = Path("models/wan-toy/tokenizer/spiece.model")
    parser.add_argument("--tokenizer", type=Path, default=tokenizer)
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--weights", type=Path, help="model folder whose weights are the first")
    parser.add_argument("--steps", type=int, help="of the whole stage; default: the stage's")
    parser.add_argument("--minutes", type=float, help="stop after these, tries included; resumable")
    parser.add_argument("--fill", action="store_true", help="as many steps as the minutes have room for, by the time of those "
                        "before; such a run cannot be resumed")
    parser.add_argument("--batch", type=int, help="clips of the smallest format a step; default: the stage's")
    parser.add_argument("--optimizer", choices=("adamw", "muon"), help="default: the stage's")
    parser.add_argument("--learning-rate", type=float, help="the highest; default: the stage's")
    parser.add_argument("--pair-share", type=float, help="of clips with two objects, of every format; default: the stage's")
    parser.add_argument("--try", dest="tries", type=tries.parse, default=[], metavar="OPTIMIZER:RATE,...",
                        help="first try these for a few steps each, from the same weights on the same clips, and go on "
                        "with the one that ends lowest")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true", help="eager mode: slower, no warm-up")
    parser.add_argument("--operator", choices=("pytorch", "vsa_torch"), default="pytorch", help="what computes attention")
    parser.add_argument("--checkpoint-interval", type=int, default=CHECKPOINT_INTERVAL, help=f"a multiple of {LOG_INTERVAL}")
    parser.add_argument("--progress", type=int, default=200, help="steps between lines on stderr")
    args = parser.parse_args()
    if args.fill and not args.minutes:
        parser.error("--fill: expected --minutes, got none")
    trainer = run(args)
    if trainer.workers.is_first:
        _export(trainer, args)


if __name__ == "__main__":
    main()
