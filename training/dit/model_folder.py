"""A model as a folder in the layout of diffusers, which `vsa generate` reads: where training ends, or begins."""
from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from training import folder
from training.dit.networks import config_of
from training.dit.trainer import Trainer
from training.model import WanTransformer

_TRANSFORMER = "transformer."
STEPS, GUIDANCE, FPS = 10, 1.0, 8  # what a generator uses when its user says nothing


def write(trainer: Trainer, root: Path, dtype: torch.dtype = torch.float16) -> None:
    """Transformer, text encoder, tokenizer and defaults, among them the sparsity of the end. All processes call it."""
    settings, weights = trainer.settings, trainer.weights()
    if not trainer.workers.is_first:
        return
    transformer = WanTransformer(config_of(settings))
    named = {_in_folder(name): weight.cpu() for name, weight in weights.items() if name.startswith(_TRANSFORMER)}
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


def read(trainer: Trainer, root: Path) -> None:
    """The trainer's weights become those of a folder, whose model and tokenizer are to be like the trainer's."""
    if not (root / "model_index.json").is_file():
        raise ValueError(f"[train] weights: expected a folder with model_index.json, got {root}")
    transformer, text_encoder, tokenizer, _ = folder.read_folder(root)
    for name, found, expected in (("transformer", transformer.config, config_of(trainer.settings)),
                                  ("text encoder", text_encoder.config, trainer.networks.text_encoder.config)):
        if found != expected:
            raise ValueError(f"[train] weights: expected a {name} of {expected}, got {found} in {root}")
    if tokenizer.model != trainer.tokenizer.model:
        raise ValueError(f"[train] weights: expected the tokenizer of --tokenizer, got another one in {root}")
    weights = {f"text_encoder.{name}": weight for name, weight in text_encoder.state_dict().items()}
    in_folder = transformer.state_dict()
    if trainer.settings.attention == "dense" and any(
            weight.any() for name, weight in in_folder.items() if "to_gate_compress" in name):
        raise ValueError("[train] weights: expected a folder without gates for --attention dense, got gates that are "
                         f"not zero in {root}; --attention vsa --sparsity 0 keeps all tiles and the gates")
    weights |= {name: in_folder[_in_folder(name)] for name, _ in trainer.networks.named_parameters()
                if name.startswith(_TRANSFORMER)}
    trainer.set_weights(weights)


def identity(root: Path) -> str:
    """Of the transformer's weights in a folder: the same for the same bytes."""
    return hashlib.sha256((root / "transformer/diffusion_pytorch_model.safetensors").read_bytes()).hexdigest()[:16]


def _in_folder(name: str) -> str:
    """A weight's name there, by its name in Networks."""
    return name.removeprefix(_TRANSFORMER).replace(".attn1.to_gate", ".to_gate")
