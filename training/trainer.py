"""One training step, and all state that the next one needs.

Everything random in a step comes from (seed, step), so a checkpoint has no generator's state in it
and a resumed run takes the same steps as one that was never stopped.
"""
from __future__ import annotations

import copy
import dataclasses
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from training import clips, drawing, flow, model, posterior, text_encoder
from training.attention import tile_plan, topk_of
from training.formats import SMALL, Format
from training.model import WanConfig, WanTransformer
from training.muon import Muon, matrices
from training.recorded import Recorded
from training.schedule import Part, Schedule
from training.text_encoder import UMT5Config, UMT5Encoder
from training.tokenizer import Tokenizer
from training.workers import Workers

CAPTION_DROPOUT = 0.1  # of the captions become "", the prompt of the unconditional pass
_NOISE, _CHOICES, _PART, _CANDIDATES = 2, 3, 5, 7  # generator keys beside clips.TRAIN and clips.EVALUATION


@dataclasses.dataclass(frozen=True)
class Settings:
    schedule: Schedule
    seed: int = 1
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    transformer: WanConfig = WanConfig()
    text_encoder: UMT5Config = UMT5Config()


class Step(NamedTuple):
    """What a step was."""

    loss: Tensor  # on the device, so that nothing waits for it
    learning_rate: float
    sparsity: float
    video: Format


class Networks(nn.Module):
    """What is trained, and averaged, together."""

    def __init__(self, settings: Settings):
        super().__init__()
        self.transformer = WanTransformer(settings.transformer)
        self.text_encoder = UMT5Encoder(settings.text_encoder)


class Trainer:
    def __init__(self, settings: Settings, tokenizer: Tokenizer, workers: Workers, *, compiled: bool,
                 attention=None):
        """attention: in the place of training.attention.attention."""
        vocab_size = tokenizer.vocab_size
        settings = dataclasses.replace(
            settings, text_encoder=dataclasses.replace(settings.text_encoder, vocab_size=vocab_size)
        )
        self.settings, self.tokenizer, self.workers = settings, tokenizer, workers
        self.device = device = workers.device
        self.step = 0
        torch.manual_seed(settings.seed)
        self.networks = Networks(settings)
        model.initialise(self.networks.transformer)
        text_encoder.initialise(self.networks.text_encoder)
        self.networks.to(device)
        self.averaged = copy.deepcopy(self.networks).requires_grad_(False)
        self.parameters = list(self.networks.parameters())
        self.loss_and_gradients = self._loss_and_gradients
        if attention:
            self.networks.transformer.set_attention(attention)
        if compiled:
            self.networks.transformer.compile_blocks()
            self.loss_and_gradients = Recorded(self._loss_and_gradients)
        self.optimizers = self._optimizers()

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        rest, decay, found = self.parameters, self.settings.weight_decay, []
        if self.settings.schedule.optimizer == "muon":
            blocks = [*self.networks.transformer.blocks, *self.networks.text_encoder.encoder.block]
            hidden = matrices(blocks)
            taken = {id(p) for p in hidden}
            rest = [p for p in rest if id(p) not in taken]
            found.append(Muon(hidden, weight_decay=decay))
        adamw = torch.optim.AdamW(rest, betas=(0.9, 0.95), weight_decay=decay, fused=self.device.type == "cuda")
        return [*found, adamw]

    def _random(self, step: int, purpose: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=[clips.seed_of(self.settings.seed, step), purpose]))

    def shown_at(self, step: int) -> Part:
        """What a step shows."""
        return self.settings.schedule.part_at(self._random(step, _PART).random())

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
        """ids, noisy clips, their velocities, noise levels and sparsity of a step: this process's part of it."""
        settings, schedule, key = self.settings, self.settings.schedule, clips.seed_of(self.settings.seed, step)
        choices, shown = self._random(step, _CHOICES), self.shown_at(step)
        u, patch = choices.random(), settings.transformer.patch_size
        sparsity = shown.sparsity_at(u) if schedule.parts else schedule.sparsity_at(step, u)
        batch = schedule.batch * SMALL.tokens(patch) // shown.video.tokens(patch)
        part = self.workers.part_of(batch)
        drawn = clips.draw(batch, key, clips.TRAIN, video=shown.video, pair_share=shown.pair_share)
        is_dropped = choices.random(batch) < CAPTION_DROPOUT
        captions = ["" if drop else c for drop, c in zip(is_dropped, drawn.captions)]
        ids = self.tokenizer.encode(captions[part]).to(self.device, non_blocking=True)
        pixels = drawing.render(drawn.part(part), self.device)
        generator = torch.Generator(self.device)
        generator.manual_seed(clips.seed_of(key, _NOISE))
        sigma = flow.random_sigmas(batch, shown.noise_shift or schedule.noise_shift, generator)[part]
        noise = torch.randn((batch, *pixels.shape[1:]), generator=generator, device=self.device)[part]
        noisy, velocity = flow.noised(pixels, noise, sigma), noise - pixels
        if schedule.target == "mean":
            u = self._random(step, _CANDIDATES).random((batch, clips.MAX_OBJECTS, posterior.CANDIDATES, 5))[part]
            mean = posterior.expected(drawn.part(part), pixels, noisy, sigma, u)
            velocity += (pixels - mean) / sigma[:, None, None, None, None]
        return ids, noisy, velocity, sigma, sparsity

    def _loss_and_gradients(
        self, ids: Tensor, noisy: Tensor, velocity: Tensor, sigma: Tensor, sparsity: float
    ) -> tuple[Tensor, ...]:
        """The loss, then the gradient of every parameter."""
        text = self.networks.text_encoder(ids)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            grid, tile_shape = self.networks.transformer.grid_of(noisy), self.settings.transformer.tile_shape
            topk = topk_of(sparsity, tile_plan(grid, tile_shape, self.device).num_tiles)
            loss = flow.velocity_loss(self.networks.transformer, text, noisy, velocity, sigma, topk).mean()
        return loss.detach(), *torch.autograd.grad(loss, self.parameters)

    def train_step(self) -> Step:
        settings, step = self.settings, self.step
        *inputs, sparsity = self.batch(step)
        loss, *gradients = self.loss_and_gradients(*inputs, sparsity)
        self.workers.average_([loss, *gradients])
        torch._foreach_mul_(gradients, self.shown_at(step).weight)
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(self.parameters, settings.max_gradient_norm)
        learning_rate = settings.schedule.learning_rate_at(step)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()
        with torch.no_grad():
            weight = 1 - settings.schedule.ema_decay_at(step)
            torch._foreach_lerp_(list(self.averaged.parameters()), self.parameters, weight)
        self.step += 1
        return Step(loss.clone(), learning_rate, sparsity, Format(*inputs[1].shape[2:]))

    def change(self, **schedule) -> None:
        """Other values of the schedule."""
        self.settings = dataclasses.replace(self.settings, schedule=dataclasses.replace(self.settings.schedule, **schedule))

    def restart(self, **schedule) -> None:
        """From the first step, with other values of the schedule and new optimizers; the weights stay."""
        self.change(**schedule)
        self.optimizers, self.step = self._optimizers(), 0

    def start_from(self, transformer: WanTransformer, umt5: UMT5Encoder) -> None:
        """Takes trained weights as the first step's."""
        for networks in (self.networks, self.averaged):
            networks.transformer.load_state_dict(transformer.state_dict())
            networks.text_encoder.load_state_dict(umt5.state_dict())

    def save(self, path: Path) -> None:
        """Atomic: the file is the old checkpoint or the new one, never a part."""
        state = {
            "settings": dataclasses.asdict(self.settings),
            "step": self.step,
            "networks": self.networks.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["settings"] != dataclasses.asdict(self.settings):
            raise ValueError(f"[resume] {path}: was trained with other settings: {state['settings']}")
        self.step = state["step"]
        self.networks.load_state_dict(state["networks"])
        self.averaged.load_state_dict(state["averaged"])
        for optimizer, its in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(its)
