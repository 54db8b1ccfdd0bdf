"""A model as a folder in the layout of diffusers, which `vsa generate` reads: where training ends, or begins."""
from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import torch

from training import folder
from training.dit.networks import config_of, text_config_of
from training.dit.settings import Settings
from training.dit.trainer import Trainer
from training.model import WanTransformer
from training.tokenizer import Tokenizer

_WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"
_FILES = ("model_index.json", "transformer/config.json", _WEIGHTS, "text_encoder/config.json",
          "text_encoder/model.safetensors", "tokenizer/spiece.model")
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


def read(settings: Settings, tokenizer: Tokenizer, root: Path) -> dict[str, torch.Tensor]:
    """A folder's weights by their names in Networks, for a run whose model and tokenizer are to be like its own."""
    _check_files(root)
    transformer, text_encoder, other_tokenizer, _ = folder.read_folder(root)
    for name, found, expected in (("transformer", transformer.config, config_of(settings)),
                                  ("text encoder", text_encoder.config, text_config_of(settings, tokenizer))):
        found, expected = dataclasses.asdict(found), dataclasses.asdict(expected)
        differ = [f"{field} {found[field]}, not {value}" for field, value in expected.items() if found[field] != value]
        if differ:
            raise ValueError(f"[train] weights: expected a {name} like that of this run, got {'; '.join(differ)} in "
                             f"{root}")
    if other_tokenizer.model != tokenizer.model:
        raise ValueError(f"[train] weights: expected the tokenizer of --tokenizer, got another one in {root}")
    weights = {_in_networks(name): weight for name, weight in transformer.state_dict().items()}
    if settings.attention == "dense":
        gates = [name for name in weights if "to_gate_compress" in name]
        if any(weights.pop(name).any() for name in gates):
            raise ValueError("[train] weights: expected a folder without gates for --attention dense, got gates that "
                             f"are not zero in {root}; --attention vsa --sparsity 0 keeps all tiles and the gates")
    return weights | {f"text_encoder.{name}": weight for name, weight in text_encoder.state_dict().items()}


def identity(root: Path) -> str:
    """Of the transformer's weights in a folder: the same for the same bytes."""
    _check_files(root)
    return hashlib.sha256((root / _WEIGHTS).read_bytes()).hexdigest()[:16]


def _check_files(root: Path) -> None:
    for file in _FILES:
        if not (root / file).is_file():
            raise ValueError(f"[train] weights: expected a folder with {file}, got {root}")
    if "vsa" not in json.loads((root / "model_index.json").read_text()):
        raise ValueError(f"[train] weights: expected a folder as --export makes it, got {root}, whose model_index.json "
                         "has no vsa")


def _in_folder(name: str) -> str:
    """A weight's name there, by its name in Networks."""
    return name.removeprefix(_TRANSFORMER).replace(".attn1.to_gate", ".to_gate")


def _in_networks(name: str) -> str:
    """The inverse."""
    return _TRANSFORMER + name.replace(".to_gate", ".attn1.to_gate")
