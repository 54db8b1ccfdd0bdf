"""A trained model as a folder in the layout of diffusers, which `vsa generate` and training/folder.py read."""
from __future__ import annotations

from pathlib import Path

import torch

from training import folder
from training.dit.networks import config_of
from training.dit.trainer import Trainer
from training.model import WanTransformer

STEPS, GUIDANCE, FPS = 10, 1.0, 8  # what a generator uses when its user says nothing


def write(trainer: Trainer, root: Path, dtype: torch.dtype = torch.float16) -> None:
    """Transformer, text encoder, tokenizer and defaults, among them the sparsity of the end. All processes call it."""
    settings, weights = trainer.settings, trainer.weights()
    if not trainer.workers.is_first:
        return
    transformer = WanTransformer(config_of(settings))
    named = {name.removeprefix("transformer.").replace(".attn1.to_gate", ".to_gate"): weight.cpu()
             for name, weight in weights.items() if name.startswith("transformer.")}
    if settings.attention == "dense":
        # It has no gates, and with those at zero VSA of all tiles is the same function.
        named |= {name: torch.zeros_like(weight) for name, weight in transformer.state_dict().items()
                  if "to_gate_compress" in name}
    transformer.load_state_dict(named)
    text_encoder = trainer.networks.text_encoder
    defaults = folder.Defaults(
        steps=STEPS, guidance=GUIDANCE, sparsity=settings.sparsity_at(settings.steps - 1), fps=FPS,
        frames=settings.frames, height=settings.height, width=settings.width)
    folder.write_folder(root, transformer, text_encoder, trainer.tokenizer, defaults, dtype)
