"""The weights to_gate_compress of checkpoints that were trained with VSA."""

import re
import warnings
from pathlib import Path

import torch

# FastVideo writes the first form, diffusers' naming is the second, Wan's own the third.
_NAME = re.compile(r"blocks\.(\d+)\.(?:attn1\.|self_attn\.)?to_gate_compress\.(weight|bias)")


def find(source, transformer, tile_shape):
    """{layer: {"weight": ..., "bias": ...}} from what enable_vsa was given as gates; {} for none."""
    if source is None:
        return {}
    if isinstance(source, str) and source == "auto":
        present = attached(transformer)
        return present or _from_origin(transformer, tile_shape)
    weights = _from_path(Path(source), tile_shape) if isinstance(source, (str, Path)) else _collect(source)
    if not weights:
        raise ValueError("[enable_vsa] gates: expected tensors blocks.N.to_gate_compress.weight, got none")
    return _checked(weights, transformer)


def attached(transformer):
    """The gates that the transformer has."""
    return {layer: dict(block.attn1.to_gate_compress.state_dict())
            for layer, block in enumerate(transformer.blocks) if hasattr(block.attn1, "to_gate_compress")}


def attach(transformer, weights):
    """Gives every layer its gate, in the dtype and on the device of its other weights; {} removes them."""
    for layer, block in enumerate(transformer.blocks):
        if hasattr(block.attn1, "to_gate_compress"):
            del block.attn1.to_gate_compress
        if layer in weights:
            like = block.attn1.to_q.weight if not block.attn1.fused_projections else block.attn1.to_qkv.weight
            rows, columns = weights[layer]["weight"].shape
            gate = torch.nn.Linear(columns, rows, bias="bias" in weights[layer], device="meta")
            gate.load_state_dict({name: tensor.to(device=like.device, dtype=like.dtype)
                                  for name, tensor in weights[layer].items()}, assign=True)
            block.attn1.to_gate_compress = gate


def _from_origin(transformer, tile_shape):
    """From the files that from_pretrained read; diffusers drops tensors that its model does not know."""
    origin = transformer.config.get("_name_or_path") or ""
    if not origin:
        return {}
    folders = [Path(origin)] if Path(origin).is_dir() else _from_hub_cache(origin)
    if not folders:
        warnings.warn(f"[enable_vsa] gates: {origin} is neither a local folder nor in the cache of downloads, so it was "
                      "not searched for to_gate_compress; pass gates= if the checkpoint was trained with VSA",
                      stacklevel=4)
    found = {folder: weights for folder in folders if (weights := _from_path(folder, tile_shape))}
    if len(found) > 1:
        names = " and ".join(folder.name for folder in found)
        raise ValueError(f"[enable_vsa] gates: expected to_gate_compress in one folder of {origin}, got {names}; pass "
                         "gates= with the folder of this transformer")
    return _checked(next(iter(found.values()), {}), transformer)


def _from_hub_cache(repository):
    """The folders with safetensors that were downloaded of a repository; nothing is downloaded here."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        snapshot = Path(snapshot_download(repository, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        return []
    return sorted({file.parent for file in snapshot.glob("**/*.safetensors")})


def _from_path(path, tile_shape):
    from safetensors import safe_open

    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    tensors = {}
    for file in files:
        with safe_open(str(file), framework="pt") as opened:
            names = [name for name in opened.keys() if _NAME.fullmatch(name)]
            trained = (opened.metadata() or {}).get("vsa.tile")
            if names and trained and tuple(map(int, trained.split(","))) != tile_shape:
                raise ValueError(f"[enable_vsa] tile_shape: expected {trained}, with which {file.name} was "
                                 f"trained, got {','.join(map(str, tile_shape))}")
            tensors |= {name: opened.get_tensor(name) for name in names}
    return _collect(tensors)


def _collect(tensors):
    """The gates among a state dict's tensors, by layer."""
    weights = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match:
            layer, part = int(match[1]), match[2]
            if part in weights.setdefault(layer, {}):
                raise ValueError(f"[enable_vsa] gates: expected one {part} of to_gate_compress in layer "
                                 f"{layer}, got two")
            weights[layer][part] = tensor
    return weights


def _checked(weights, transformer):
    """`weights`, if they fit: all layers or none, each of the attention's width."""
    num_layers = len(transformer.blocks)
    if not weights:
        return weights
    complete = [layer for layer, parts in weights.items() if "weight" in parts and layer < num_layers]
    if len(complete) != num_layers or len(weights) != num_layers:
        raise ValueError(f"[enable_vsa] gates: expected to_gate_compress in {num_layers} layers or in none, got "
                         f"{len(complete)} of them with a weight and {len(weights)} in all")
    if len({"bias" in parts for parts in weights.values()}) != 1:
        raise ValueError("[enable_vsa] gates: expected a bias in all layers or in none, got some")
    inner = transformer.config.num_attention_heads * transformer.config.attention_head_dim
    for layer, parts in weights.items():
        for part, shape in (("weight", (inner, inner)), ("bias", (inner,))):
            if part in parts and tuple(parts[part].shape) != shape:
                raise ValueError(f"[enable_vsa] gates: expected blocks.{layer}.to_gate_compress.{part} of shape "
                                 f"{shape}, got {tuple(parts[part].shape)}")
    return weights
