"""One training step, and all state that the next one needs.

Everything random in a step comes from (seed, step), so a checkpoint has no generator's state in it. Weights, AdamW's
moments and gradients are fp32; on a GPU matrix products and attention run in bfloat16 under autocast. Several
processes share the batch and, by FSDP2, the weights.
"""
from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_model_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from training import flow
from training.clips import seed_of
from training.dit import flops
from training.dit.networks import Networks
from training.dit.settings import Settings
from training.tokenizer import Tokenizer
from training.workers import Workers

_NOISE, _CAPTIONS = 2, 3  # generator keys beside those of the videos
EVALUATION_LEVELS = 8  # noise levels at equal quantiles of training's


class Trainer:
    def __init__(self, settings: Settings, tokenizer: Tokenizer, videos, workers: Workers, *, compiled: bool = False,
                 recompute: bool = False, begun_with: str | None = None):
        """begun_with: the identity of the weights that the caller sets; None for random ones."""
        self.settings, self.tokenizer, self.videos, self.workers = settings, tokenizer, videos, workers
        self.device, self.step, self.begun_with = workers.device, 0, begun_with
        self.networks = Networks(settings, tokenizer).to(self.device)
        self.flops = flops.per_level(settings, self.networks)  # before the weights are spread over processes
        if recompute:
            self.networks.transformer.enable_gradient_checkpointing()
        if compiled:
            self.networks.compile_blocks(len(self.flops))
        if workers.count > 1:
            for block in self.networks.transformer.blocks:
                fully_shard(block)
            fully_shard(self.networks)
        self.optimizer = torch.optim.AdamW(self.networks.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95),
                                           weight_decay=settings.weight_decay, fused=self.device.type == "cuda")

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """ids, videos, noise and noise levels of a step: this process's part of them."""
        settings, part = self.settings, self.workers.part_of(self.settings.batch)
        key = seed_of(settings.seed, step)
        captions, pixels = self.videos.training(settings.batch, key, part, self.device)
        dropped = np.random.Generator(np.random.Philox(key=[key, _CAPTIONS])).random(settings.batch)[part]
        captions = ["" if u < settings.caption_dropout else c for u, c in zip(dropped, captions)]
        generator = torch.Generator(self.device).manual_seed(seed_of(key, _NOISE))
        sigma = flow.random_sigmas(settings.batch, settings.noise_shift, generator)
        noise = torch.randn((settings.batch, *pixels.shape[1:]), generator=generator, device=self.device)
        return self.tokenizer.encode(captions).to(self.device), pixels, noise[part], sigma[part]

    def losses(self, ids: Tensor, pixels: Tensor, noise: Tensor, sigma: Tensor) -> Tensor:
        """Mean squared error [B] of the predicted velocity, fp32."""
        level = sigma[:, None, None, None, None]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            velocity = self.networks(ids, (1 - level) * pixels + level * noise, sigma)
        return (velocity - (noise - pixels)).square().mean((1, 2, 3, 4))

    def train_step(self) -> tuple[Tensor, float, float]:
        """Loss over all processes (a tensor on the device, so that nothing waits for it), learning rate, sparsity."""
        settings, step = self.settings, self.step
        self.networks.sparsity = settings.sparsity_at(step)
        inputs = self.batch(step)
        size = len(inputs[0])
        each = settings.micro_batch or size
        total = torch.zeros((), device=self.device)
        for start in range(0, size, each):
            loss = self.losses(*(t[start:start + each] for t in inputs)).sum() / size
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(self.networks.parameters(), settings.max_gradient_norm)
        learning_rate = settings.learning_rate_at(step)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.workers.average_([total])
        self.step += 1
        return total, learning_rate, self.networks.sparsity

    @torch.no_grad()
    def evaluate(self, count: int, sparsity: float, chunk: int = 8) -> float:
        """Loss on `count` videos that training never shows, on fixed noise and levels, with that sparsity."""
        u = (torch.arange(EVALUATION_LEVELS) + 0.5) / EVALUATION_LEVELS
        levels = flow.shifted(torch.special.ndtri(u).sigmoid(), self.settings.noise_shift).to(self.device)
        self.networks.sparsity = sparsity
        total = torch.zeros((), device=self.device)
        for first in range(0, count, chunk):
            videos = min(chunk, count - first)
            captions, pixels = self.videos.evaluation(videos, first, self.device)
            ids = self.tokenizer.encode(captions).to(self.device)
            # From the CPU, whose numbers are the same on every machine.
            generator = torch.Generator().manual_seed(seed_of(first, _NOISE))
            noise = torch.randn(pixels.shape, generator=generator).to(self.device)
            for level in levels:
                total += self.losses(ids, pixels, noise, level.expand(videos)).sum()
        return total.item() / (count * EVALUATION_LEVELS)

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.networks.transformer.parameters())

    def save(self, path: Path) -> None:
        """Atomic: the file is the old checkpoint or the new one, never a part. All processes call it."""
        weights, moments = get_state_dict(self.networks, self.optimizer, options=_WHOLE)
        if not self.workers.is_first:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        torch.save({"settings": dataclasses.asdict(self.settings), "data": self.videos.name, "weights": self.begun_with,
                    "step": self.step, "networks": weights, "optimizer": moments}, partial)
        os.replace(partial, path)

    def load(self, path: Path) -> None:
        """The number of processes may be another than when it was saved; settings, videos and
        the weights that it was begun with may not."""
        state = torch.load(path, map_location="cpu", weights_only=True)
        now = dataclasses.asdict(self.settings) | {"data": self.videos.name, "weights": self.begun_with}
        # A checkpoint of before does not tell its weights.
        before = state["settings"] | {"data": state.get("data"), "weights": state.get("weights", self.begun_with)}
        changed = [f"{name} {before.get(name)} (now {now.get(name)})" for name in sorted(before.keys() | now.keys())
                   if before.get(name) != now.get(name)]
        if changed:
            raise ValueError(f"[resume] {path}: was trained with other settings: {', '.join(changed)}")
        set_state_dict(self.networks, self.optimizer, model_state_dict=state["networks"],
                       optim_state_dict=state["optimizer"], options=_WHOLE)
        self.step = state["step"]

    def weights(self) -> dict[str, Tensor]:
        """All weights, whole."""
        return {name: (p.full_tensor() if isinstance(p, DTensor) else p).detach()
                for name, p in self.networks.named_parameters()}

    def set_weights(self, weights: dict[str, Tensor]) -> None:
        set_model_state_dict(self.networks, weights, options=_WHOLE)


_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
