"""A tiny training run of training/dit, for its tests."""
import dataclasses
from pathlib import Path

from training.dit import train, videos
from training.dit.settings import Settings
from training.dit.trainer import Trainer
from training.tokenizer import Tokenizer
from training.workers import Workers

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = Tokenizer.from_file(train.TOKENIZER)
# 4 x 8 x 8 tokens: 4 tiles.
TINY = Settings(size="tiny", patch=(4, 8, 8), steps=12, batch=2, warmup=2, sparsity=0.75)


def trainer(**change):
    settings = dataclasses.replace(TINY, **change)
    return Trainer(settings, TOKENIZER, videos.Procedural(settings), Workers("cpu"))


def losses(trained, count):
    return [trained.train_step()[0].item() for _ in range(count)]


def command(tmp_path, *options):
    args = ["--work", str(tmp_path / "run"), "--size", "tiny", "--patch", "4,8,8", "--steps", "4", "--batch", "2",
            "--device", "cpu", "--evaluation-videos", "2", *options]
    return train.parser().parse_args(args)
