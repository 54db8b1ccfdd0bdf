"""Reads the weights to_gate_compress out of checkpoints, whatever format and names they have."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

# What saving from within a wrapper leaves in the names, and what a file of several models puts before them.
_WRAPPER = re.compile(r"(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_OWNER = re.compile(r"^(?:(?:module|model|diffusion_model|transformer)\.)*")
# FastVideo writes the first form, diffusers' naming is the second, Wan's own the third.
_NAME = re.compile(r"blocks\.(\d+)\.(?:attn1\.|self_attn\.)?to_gate_compress\.(.+)")
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.|$)")  # before or after the name of a variant
_OTHERS = (".bin", ".pt", ".pth", ".ckpt", ".gguf")
TILE_KEY = "_vsa_tile"  # in a model's config, where diffusers ignores names that begin with _


@dataclass(frozen=True)
class Gates:
    """Gates of a checkpoint. They are as they were stored, no model's own."""

    layers: dict = field(default_factory=dict)  # {layer: {"weight": [inner, inner], "bias": [inner]}}
    tile_shape: tuple | None = None  # with which they were trained, where their file says it


def from_files(files):
    """The gates in the files of one checkpoint. Raises ValueError for a gate that is there twice, and for files that
    cannot be read."""
    found, tiles = [], set()
    for file in [part for file in files for part in _shards(Path(file))]:
        tensors, tile = _tensors(file)
        found += [(name, tensor, f" in {file.name}") for name, tensor in tensors.items()]
        if tensors and tile:
            tiles.add(tile)
    if len(tiles) > 1:
        raise ValueError(f"[enable_vsa] gates: expected files that were trained with one tile, got "
                         f"{' and '.join(sorted(tiles))}")
    return Gates(_layers(found), _tile(tiles.pop()) if tiles else None)


def from_folder(folder):
    """The gates in a folder, which holds one checkpoint."""
    gates = from_files(files_of(folder))
    config = Path(folder) / "config.json"
    if gates.layers and gates.tile_shape is None and config.is_file():
        return Gates(gates.layers, tile_of(json.loads(config.read_text())))
    return gates


def from_tensors(tensors):
    """The gates among a state dict's tensors."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"[enable_vsa] gates: expected auto, a path, a state dict or None, got {type(tensors).__name__}")
    return Gates(_layers((name, tensor, "") for name, tensor in gates_among(tensors).items()))


def gates_among(tensors):
    """The tensors of a state dict that are gates, by their own names."""
    return {name: tensor for name, tensor in tensors.items() if isinstance(name, str) and _match(name)}


def files_of(folder):
    """The files with weights in a folder, safetensors before others."""
    for endings in ((".safetensors",), _OTHERS):
        files = sorted(file for file in Path(folder).iterdir()
                       if file.suffix in endings and not file.name.startswith("."))
        if files:
            return files
    return []


def checkpoints_of(folder):
    """The checkpoints in a folder, {name: files}: one for every variant, its shards together."""
    found = {}
    for file in files_of(folder):
        found.setdefault(_SHARD.sub("", file.stem), []).append(file)
    return found


def tile_of(config):
    """The tile that a model's config says its gates were used with, None where it says none."""
    return _tile(config[TILE_KEY]) if config.get(TILE_KEY) else None


def _tile(text):
    return tuple(map(int, text.split(",")))


def _match(name):
    return _NAME.fullmatch(_OWNER.sub("", _WRAPPER.sub("", name)))


def _shards(file):
    """The files that an index names; any other file itself."""
    if file.suffix != ".json":
        return [file]
    try:
        return sorted({file.parent / name for name in json.loads(file.read_text())["weight_map"].values()})
    except (KeyError, ValueError) as error:
        raise ValueError(f"[enable_vsa] gates: expected an index of files with weights, got {file}: {error}") from None


def _tensors(file):
    """({name: gate}, the tile it was trained with or None) of one file."""
    try:
        if file.suffix in _OTHERS:
            return _pickled(file), None
        from safetensors import safe_open

        with safe_open(str(file), framework="pt") as opened:
            names = [name for name in opened.keys() if _match(name)]
            return {name: opened.get_tensor(name) for name in names}, (opened.metadata() or {}).get("vsa.tile")
    except FileNotFoundError:
        raise
    except Exception as error:  # every format has errors of its own
        kind = "file of weights" if file.suffix in _OTHERS else "safetensors file"
        raise ValueError(f"[enable_vsa] gates: expected a {kind}, got {file}: {error}") from None


def _pickled(file):
    """The gates of a file that only diffusers' own loader reads."""
    from diffusers.models.model_loading_utils import load_state_dict

    tensors = load_state_dict(str(file))
    while "state_dict" in tensors:
        tensors = tensors["state_dict"]
    return gates_among(tensors)


def _layers(named):
    """{layer: {part: tensor}} of (name, tensor, where it is)."""
    layers, places = {}, {}
    for name, tensor, place in named:
        match = _match(name)
        layer, part = int(match[1]), match[2]
        if part not in ("weight", "bias"):  # scales of a quantised weight, adapters beside it
            raise ValueError(f"[enable_vsa] gates: expected weight and bias of to_gate_compress alone, got "
                             f"{name}{place}; fuse adapters and undo quantisation before it is saved")
        if part in layers.setdefault(layer, {}):
            raise ValueError(f"[enable_vsa] gates: expected one {part} of to_gate_compress in layer {layer}, got two: "
                             f"{places[layer, part]} and {name}{place}; name the file that was loaded")
        layers[layer][part], places[layer, part] = _dense(name, tensor), name + place
    return layers


def _dense(name, tensor):
    """A gate as a tensor of floats."""
    if hasattr(tensor, "quant_type"):  # GGUF's blocks
        from diffusers.quantizers.gguf.utils import dequantize_gguf_tensor

        tensor = dequantize_gguf_tensor(tensor)
    is_tensor = isinstance(tensor, torch.Tensor)
    if is_tensor and tensor.layout != torch.strided:
        raise ValueError(f"[enable_vsa] gates: expected {name} as a tensor by strides, got {tensor.layout}")
    if not is_tensor or not tensor.is_floating_point():
        what = str(tensor.dtype) if is_tensor else type(tensor).__name__
        raise ValueError(f"[enable_vsa] gates: expected {name} in floating point, got {what}")
    return tensor.detach()
