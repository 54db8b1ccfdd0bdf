"""The weights to_gate_compress of checkpoints that were trained with VSA."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

# FastVideo writes the first form, diffusers' naming is the second, Wan's own the third.
_NAME = re.compile(r"blocks\.(\d+)\.(?:attn1\.|self_attn\.)?to_gate_compress\.(weight|bias)")


@dataclass(frozen=True)
class Gates:
    layers: dict  # {layer: {"weight": [inner, inner], "bias": [inner]}}, {} for none; a bias in all layers or in none
    tile_shape: tuple | None = None  # with which they were trained, where their file says it


NONE = Gates({})


def find(source, transformer, tile_shape):
    """The Gates in what enable_vsa was given as gates, checked: all layers or none, each of the attention's width, and
    trained with that tile_shape."""
    if source is None:
        return NONE
    if isinstance(source, str) and source == "auto":
        present = attached(transformer)
        found = present if present.layers else _from_origin(transformer)
    else:
        found = _from_path(Path(source)) if isinstance(source, (str, Path)) else _from_tensors(source)
        if not found.layers:
            raise ValueError("[enable_vsa] gates: expected tensors blocks.N.to_gate_compress.weight, got none")
    if found.tile_shape not in (None, tile_shape):
        trained, got = (",".join(map(str, shape)) for shape in (found.tile_shape, tile_shape))
        raise ValueError(f"[enable_vsa] tile_shape: expected {trained}, with which the gates were trained, got {got}")
    _check(found.layers, transformer)
    return found


def attached(transformer):
    """The gates that the transformer has."""
    gates = {layer: block.attn1.to_gate_compress for layer, block in enumerate(transformer.blocks)
             if hasattr(block.attn1, "to_gate_compress")}
    shapes = {getattr(gate, "trained_tile_shape", None) for gate in gates.values()}
    return Gates({layer: dict(gate.state_dict()) for layer, gate in gates.items()}, shapes.pop() if shapes else None)


def attach(transformer, gates):
    """Gives every layer its gate, in the dtype and on the device of its other weights; NONE removes them."""
    for layer, block in enumerate(transformer.blocks):
        if hasattr(block.attn1, "to_gate_compress"):
            del block.attn1.to_gate_compress
        if layer in gates.layers:
            weights = gates.layers[layer]
            like = block.attn1.to_q.weight if not block.attn1.fused_projections else block.attn1.to_qkv.weight
            rows, columns = weights["weight"].shape
            gate = torch.nn.Linear(columns, rows, bias="bias" in weights, device="meta")
            gate.load_state_dict({name: tensor.to(device=like.device, dtype=like.dtype)
                                  for name, tensor in weights.items()}, assign=True)
            gate.trained_tile_shape = gates.tile_shape
            block.attn1.to_gate_compress = gate


def _from_origin(transformer):
    """From the files that from_pretrained read; diffusers drops tensors that its model does not know."""
    origin = transformer.config.get("_name_or_path") or ""
    if not origin:
        return NONE
    folders = [Path(origin)] if Path(origin).is_dir() else _from_hub_cache(origin)
    if not folders:
        warnings.warn(f"[enable_vsa] gates: {origin} is neither a local folder nor in the cache of downloads, so it "
                      "was not searched for to_gate_compress; pass gates= if the checkpoint was trained with VSA",
                      stacklevel=4)
    found = {folder: gates for folder in folders if (gates := _from_path(folder)).layers}
    if len(found) > 1:
        names = " and ".join(folder.name for folder in found)
        raise ValueError(f"[enable_vsa] gates: expected to_gate_compress in one folder of {origin}, got {names}; pass "
                         "gates= with the folder of this transformer")
    return next(iter(found.values()), NONE)


def _from_hub_cache(repository):
    """The folders with safetensors that were downloaded of a repository; nothing is downloaded here."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        snapshot = Path(snapshot_download(repository, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        return []
    return sorted({file.parent for file in snapshot.glob("**/*.safetensors")})


def _from_path(path):
    from safetensors import SafetensorError, safe_open

    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    tensors, tile_shape = {}, None
    for file in files:
        try:
            with safe_open(str(file), framework="pt") as opened:
                names = [name for name in opened.keys() if _NAME.fullmatch(name)]
                trained = (opened.metadata() or {}).get("vsa.tile")
                tensors |= {name: opened.get_tensor(name) for name in names}
        except SafetensorError as error:
            raise ValueError(f"[enable_vsa] gates: expected a safetensors file, got {file}: {error}") from None
        if names and trained:
            tile_shape = tuple(map(int, trained.split(",")))
    return _from_tensors(tensors, tile_shape)


def _from_tensors(tensors, tile_shape=None):
    """The gates among a state dict's tensors."""
    if not isinstance(tensors, Mapping):
        raise TypeError("[enable_vsa] gates: expected auto, a path, a state dict or None, got "
                        f"{type(tensors).__name__}")
    layers = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match:
            layer, part = int(match[1]), match[2]
            if part in layers.setdefault(layer, {}):
                raise ValueError(f"[enable_vsa] gates: expected one {part} of to_gate_compress in layer "
                                 f"{layer}, got two")
            layers[layer][part] = tensor
    return Gates(layers, tile_shape)


def _check(layers, transformer):
    """All layers have a gate or none, each of the attention's width."""
    num_layers = len(transformer.blocks)
    if not layers:
        return
    complete = [layer for layer, parts in layers.items() if "weight" in parts and layer < num_layers]
    if len(complete) != num_layers or len(layers) != num_layers:
        raise ValueError(f"[enable_vsa] gates: expected to_gate_compress in {num_layers} layers or in none, got "
                         f"{len(complete)} of them with a weight and {len(layers)} in all")
    if len({"bias" in parts for parts in layers.values()}) != 1:
        raise ValueError("[enable_vsa] gates: expected a bias in all layers or in none, got some")
    inner = transformer.config.num_attention_heads * transformer.config.attention_head_dim
    for layer, parts in layers.items():
        for part, shape in (("weight", (inner, inner)), ("bias", (inner,))):
            if part in parts and tuple(parts[part].shape) != shape:
                raise ValueError(f"[enable_vsa] gates: expected blocks.{layer}.to_gate_compress.{part} of shape "
                                 f"{shape}, got {tuple(parts[part].shape)}")
