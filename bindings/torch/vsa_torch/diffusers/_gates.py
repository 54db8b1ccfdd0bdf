"""The gates of a model, to_gate_compress in every self-attention. Once attached, they are the model's own modules:
their weights are not read again, and they stay the same modules whatever wraps, moves, packs or trains them."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from vsa_torch.diffusers import _checkpoints, _origin, _placement
from vsa_torch.diffusers._checkpoints import TILE_KEY, Gates

_NAME = "to_gate_compress"


@dataclass(frozen=True)
class Change:
    """What enable_vsa does to the gates of a transformer, checked so that `apply` does not fail."""

    kind: str  # "keep", "remove", "write" into those attached, or "attach"
    gates: Gates = field(default_factory=Gates)
    num_gates: int = 0
    trained_tile: tuple | None = None  # with which the gates were trained, if that is known

    def apply(self, transformer, tile_shape):
        """`tile_shape` is the one in use, which the config keeps with the gates when the model is saved; None where
        tiles have no shape."""
        for layer, block in enumerate(transformer.blocks):
            attention = block.attn1
            if self.kind == "remove" and attached(attention) is not None:
                delattr(attention, _NAME)
            elif self.kind == "attach":
                _placement.attach(_NAME, transformer, block, self.gates.layers[layer])
            elif self.kind == "write":
                with torch.no_grad():
                    for part, tensor in self.gates.layers[layer].items():
                        getattr(attached(attention), part).copy_(tensor)
        if self.num_gates or transformer.config.get(TILE_KEY):
            tile = (self.trained_tile or tile_shape) if self.num_gates else None
            tile = None if tile is None else ",".join(map(str, tile))
            transformer.register_to_config(**{TILE_KEY: tile})
        transformer._vsa_trained_tile = self.trained_tile


def attached(attention):
    """The gate of a self-attention; None if it has none."""
    return getattr(attention, _NAME, None)


def change(source, transformer, wrappers, tile_shape, order):
    """The Change that enable_vsa's argument gates asks for. Raises ValueError and TypeError, and changes nothing."""
    present = [layer for layer, block in enumerate(transformer.blocks) if attached(block.attn1) is not None]
    if present and len(present) != len(transformer.blocks):
        raise ValueError(f"[enable_vsa] model: expected to_gate_compress in {len(transformer.blocks)} layers or in "
                         f"none, got {len(present)}")
    if source is None:
        return Change("remove")
    automatic = isinstance(source, str) and source == "auto"
    if automatic and present:
        trained = transformer.__dict__.get("_vsa_trained_tile")
        _check_tile(trained, tile_shape, order)
        return Change("keep", num_gates=len(present), trained_tile=trained)
    if automatic:
        gates = _origin.gates_of(transformer)
        if not gates.layers:
            return Change("remove")
    else:
        gates = _given(source)
    _check_tile(gates.tile_shape, tile_shape, order)
    _check_layers(gates.layers, transformer)
    if present:
        for layer, block in enumerate(transformer.blocks):
            _placement.check_writable(transformer, layer, attached(block.attn1), gates.layers[layer])
    else:
        _placement.check_attachable(transformer, wrappers)
    return Change("write" if present else "attach", gates, len(transformer.blocks), gates.tile_shape)


def _given(source):
    if not isinstance(source, (str, Path)):
        gates = _checkpoints.from_tensors(source)
    elif Path(source).is_dir():
        gates = _checkpoints.from_folder(source)
    else:
        gates = _checkpoints.from_files([source])
    if not gates.layers:
        raise ValueError("[enable_vsa] gates: expected tensors blocks.N.to_gate_compress.weight, got none")
    return gates


def _check_tile(trained, tile_shape, order):
    if trained is not None and order != "raster":
        raise ValueError(f"[enable_vsa] order: expected raster, as the gates were trained or saved with tiles of "
                         f"{','.join(map(str, trained))}, got {order}; pass them as a state dict to use them all the same")
    if trained not in (None, tile_shape):
        trained, got = (",".join(map(str, shape)) for shape in (trained, tile_shape))
        raise ValueError(f"[enable_vsa] tile_shape: expected {trained}, with which the gates were trained or saved, got "
                         f"{got}; pass them as a state dict to use them with another tile")


def _check_layers(layers, transformer):
    """All layers have a gate, each of the attention's width."""
    num_layers = len(transformer.blocks)
    complete = [layer for layer, parts in layers.items() if "weight" in parts and layer < num_layers]
    if len(complete) != num_layers or len(layers) != num_layers:
        raise ValueError(f"[enable_vsa] gates: expected to_gate_compress in {num_layers} layers or in none, got "
                         f"{len(complete)} of them with a weight and {len(layers)} in all")
    if len({"bias" in parts for parts in layers.values()}) != 1:
        raise ValueError("[enable_vsa] gates: expected a bias in all layers or in none, got some")
    without = [(layer, part) for layer, parts in layers.items() for part, tensor in parts.items() if tensor.is_meta]
    if without:
        raise ValueError("[enable_vsa] gates: expected tensors with values, got one on meta: blocks.{}.to_gate_compress.{}"
                         .format(*without[0]))
    inner = transformer.config.num_attention_heads * transformer.config.attention_head_dim
    for layer, parts in layers.items():
        for part, shape in (("weight", (inner, inner)), ("bias", (inner,))):
            if part in parts and tuple(parts[part].shape) != shape:
                raise ValueError(f"[enable_vsa] gates: expected blocks.{layer}.to_gate_compress.{part} of shape "
                                 f"{shape}, got {tuple(parts[part].shape)}")
