"""Flow matching: the noise schedule, the training loss and the Euler sampler.

A noisy clip is x = (1 - sigma) * clip + sigma * noise, and the model predicts noise - clip.
"""
from __future__ import annotations

import torch
from torch import Tensor

from training.folder import SHIFT
from training.model import WanTransformer
from training.text_encoder import UMT5Encoder


def shifted(u, shift: float):
    """The noise level of u in [0, 1], a number or a tensor; shift > 1 spends more time in noise."""
    return shift * u / (1 + (shift - 1) * u)


def euler_sigmas(steps: int, shift: float = SHIFT) -> list[float]:
    """The steps + 1 noise levels of a sampling run, from 1 to 0."""
    return [shifted(1 - i / steps, shift) for i in range(steps + 1)]


def random_sigmas(batch: int, shift: float, generator: torch.Generator) -> Tensor:
    """Training's noise levels [B]: logit-normal, then shifted."""
    return shifted(torch.randn(batch, generator=generator, device=generator.device).sigmoid(), shift)


def noised(clips: Tensor, noise: Tensor, sigma: Tensor) -> Tensor:
    level = sigma[:, None, None, None, None]
    return (1 - level) * clips + level * noise


def velocity_loss(
    transformer: WanTransformer, text: Tensor, noisy: Tensor, velocity: Tensor, sigma: Tensor, topk: int | None
) -> Tensor:
    """Mean squared error [B] of the predicted velocity, fp32."""
    return (transformer(noisy, 1000 * sigma, text, topk).float() - velocity).square().mean((1, 2, 3, 4))


def denoising_loss(
    transformer: WanTransformer, text: Tensor, clips: Tensor, noise: Tensor, sigma: Tensor, topk: int | None
) -> Tensor:
    """The same against the velocity of the clips and noise that were drawn."""
    return velocity_loss(transformer, text, noised(clips, noise, sigma), noise - clips, sigma, topk)


@torch.no_grad()
def sample(
    transformer: WanTransformer,
    text_encoder: UMT5Encoder,
    ids: Tensor,
    empty_ids: Tensor,
    noise: Tensor,
    steps: int,
    guidance: float,
    topk: int | None,
    shift: float = SHIFT,
) -> Tensor:
    """Clips in [-1, 1] from noise [B, 3, F, H, W]. ids [B, L]; empty_ids [1, L] is the prompt ""."""
    text, empty = text_encoder(ids), text_encoder(empty_ids).expand(len(ids), -1, -1)
    x = noise
    sigmas = euler_sigmas(steps, shift)
    for sigma, following in zip(sigmas, sigmas[1:]):
        timestep = torch.full((len(x),), 1000 * sigma, device=x.device)
        velocity = transformer(x, timestep, text, topk).float()
        if guidance != 1:
            unguided = transformer(x, timestep, empty, topk).float()
            velocity = unguided + guidance * (velocity - unguided)
        x = x + (following - sigma) * velocity
    return x.clamp(-1, 1)
