"""What is trained on: procedural clips, or a folder of videos with captions.

Both give a step's videos from (seed, step) alone, so that a resumed run sees what a straight one would have seen.
"""
from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageSequence
from torch import Tensor

from training import clips, drawing
from training.dit.settings import Settings
from training.formats import SMALL

EVALUATION_SEED = 77
_CHOICES = 4  # generator key of which videos, and where in them
FRAME_FILES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


class Procedural:
    """The clips of training/clips.py: 16 frames of 64 x 64."""

    name = "procedural clips"  # what a checkpoint was trained on

    def __init__(self, settings: Settings):
        wanted = (settings.frames, settings.height, settings.width)
        if wanted != dataclasses.astuple(SMALL):
            raise ValueError(f"[train] frames, height, width: expected {SMALL.frames}, {SMALL.height}, "
                             f"{SMALL.width} for procedural clips, got {wanted}")

    def training(self, count: int, key: int, part: slice, device) -> tuple[list[str], Tensor]:
        """Captions and videos [B, 3, F, H, W] in [-1, 1]: `part` of the `count` videos of a step."""
        return self._drawn(count, key, clips.TRAIN, part, device)

    def evaluation(self, count: int, key: int, device) -> tuple[list[str], Tensor]:
        """Videos that training never shows."""
        return self._drawn(count, clips.seed_of(EVALUATION_SEED, key), clips.EVALUATION, slice(None), device)

    def _drawn(self, count, seed, split, part, device):
        drawn = clips.draw(count, seed, split)
        return drawn.captions[part], drawing.render(drawn.part(part), device)


class Folder:
    """Videos of a folder: files that ffmpeg or Pillow reads, or folders of frames; NAME.txt holds a caption.

    Each is decoded once, cut to the size of training, and kept in `cache` as an array of bytes. One video in twenty,
    chosen by its name, is for evaluation.
    """

    def __init__(self, path: Path, settings: Settings, cache: Path):
        self.settings, self.cache = settings, cache
        if not path.is_dir():
            raise ValueError(f"[train] data: expected a folder of videos, got {path}")
        found = sorted(p for p in path.iterdir() if p.suffix != ".txt" and not p.name.startswith("."))
        cache.mkdir(parents=True, exist_ok=True)
        self.videos = {False: [], True: []}
        for source in found:
            name_hash = int.from_bytes(hashlib.sha256(source.name.encode()).digest()[:8], "big")
            self.videos[name_hash % 20 == 0].append((self._decoded(source), self._caption(source)))
        if not self.videos[True] and len(found) > 1:
            self.videos[True].append(self.videos[False].pop())
        if not self.videos[True] or not self.videos[False]:
            raise ValueError(f"[train] data: expected a folder of at least two videos, got {len(found)} in {path}")
        contents = repr([(source.name, self._caption(source)) for source in found])
        self.name = f"{len(found)} videos, {hashlib.sha256(contents.encode()).hexdigest()[:16]}"

    def training(self, count: int, key: int, part: slice, device) -> tuple[list[str], Tensor]:
        return self._drawn(False, count, key, part, device)

    def evaluation(self, count: int, key: int, device) -> tuple[list[str], Tensor]:
        return self._drawn(True, count, clips.seed_of(EVALUATION_SEED, key), slice(None), device)

    def _drawn(self, held_out, count, key, part, device):
        rng = np.random.Generator(np.random.Philox(key=[key, _CHOICES]))
        videos, frames = self.videos[held_out], self.settings.frames
        picked, starts = rng.integers(len(videos), size=count)[part], rng.random(count)[part]
        captions, batch = [], []
        for index, start in zip(picked, starts):
            file, caption = videos[index]
            video = np.load(file, mmap_mode="r")
            first = int(start * (len(video) - frames + 1))
            batch.append(torch.from_numpy(np.array(video[first:first + frames])))
            captions.append(caption)
        pixels = torch.stack(batch).to(device).permute(0, 4, 1, 2, 3)
        return captions, (pixels.float() / 127.5 - 1).contiguous()

    @property
    def captions(self) -> list[str]:
        return [caption for held_out in (False, True) for _, caption in self.videos[held_out]]

    @staticmethod
    def _caption(source: Path) -> str:
        text = source.with_suffix(".txt")
        return text.read_text().strip() if text.exists() else ""

    def _decoded(self, source: Path) -> Path:
        s = self.settings
        state = source.stat()
        file = self.cache / f"{source.name}.{s.height}x{s.width}.{state.st_size}.{state.st_mtime_ns}.npy"
        if not file.exists():
            video = decode(source, s.height, s.width)
            if len(video) < s.frames:
                raise ValueError(f"[train] data: expected at least {s.frames} frames, got {len(video)} in {source}")
            partial = file.with_suffix(f".{os.getpid()}.partial")  # each process of torchrun decodes
            with partial.open("wb") as opened:
                np.save(opened, video)
            partial.replace(file)
        return file


def decode(source: Path, height: int, width: int) -> np.ndarray:
    """uint8 [F, height, width, 3]: scaled to cover that size, then cut at the centre."""
    if source.is_dir():
        files = sorted(p for p in source.iterdir() if p.suffix.lower() in FRAME_FILES)
        return np.stack([_fitted(Image.open(p), height, width) for p in files]) if files else np.empty((0,))
    if source.suffix.lower() in (".gif", ".webp", ".png", ".apng"):
        with Image.open(source) as image:
            return np.stack([_fitted(frame, height, width) for frame in ImageSequence.Iterator(image)])
    if not shutil.which("ffmpeg"):
        raise ValueError(f"[train] data: expected the program ffmpeg, which reads {source.name}, got none")
    scaled = f"scale={width}:{height}:force_original_aspect_ratio=increase,crop={width}:{height}"
    command = ["ffmpeg", "-v", "error", "-i", str(source), "-vf", scaled, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ValueError(f"[train] data: ffmpeg could not read {source}: {done.stderr.decode().strip()}")
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)


def _fitted(image: Image.Image, height: int, width: int) -> np.ndarray:
    image = image.convert("RGB")
    scale = max(width / image.width, height / image.height)
    size = (max(width, round(image.width * scale)), max(height, round(image.height * scale)))
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC).crop((left, top, left + width, top + height)))
