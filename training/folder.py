"""Reads and writes a model as a folder in the layout of diffusers."""
from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from training import grammar
from training.formats import Format
from training.model import WanConfig, WanTransformer
from training.text_encoder import UMT5Config, UMT5Encoder
from training.tokenizer import MAX_LENGTH, Tokenizer

SHIFT = 8.0  # of the sampler's noise levels, see flow.shifted


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What a generator uses when its user says nothing."""

    steps: int
    guidance: float
    sparsity: float = 0.75
    fps: int = 8
    frames: int = 16
    height: int = 64
    width: int = 64


def transformer_json(config: WanConfig) -> dict:
    fields = dataclasses.asdict(config)
    del fields["tile_shape"]
    fixed = {
        "_class_name": "WanTransformer3DModel",
        "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
        "image_dim": None,
        "added_kv_proj_dim": None,
        "pos_embed_seq_len": None,
    }
    return {**fixed, **fields}


def text_encoder_json(config: UMT5Config) -> dict:
    fixed = {
        "architectures": ["UMT5EncoderModel"],
        "model_type": "umt5",
        "feed_forward_proj": "gated-gelu",
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    return {**fixed, **dataclasses.asdict(config)}


def model_index_json(config: WanConfig, defaults: Defaults, videos: tuple[Format, ...]) -> dict:
    own = Format(defaults.frames, defaults.height, defaults.width)
    return {
        "_class_name": "WanPipeline",
        "transformer": ["diffusers", "WanTransformer3DModel"],
        "text_encoder": ["transformers", "UMT5EncoderModel"],
        "tokenizer": ["transformers", "T5Tokenizer"],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "vae": [None, None],
        "vsa": {
            "max_sequence_length": MAX_LENGTH,
            "tile": list(config.tile_shape),
            **dataclasses.asdict(defaults),
            "trained_words": grammar.all_words(),
            "trained_videos": [list(dataclasses.astuple(video)) for video in videos or (own,)],
        },
    }


def scheduler_json() -> dict:
    name = "FlowMatchEulerDiscreteScheduler"
    return {"_class_name": name, "shift": SHIFT, "num_train_timesteps": 1000}


def write_json(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_tensors(path: Path, tensors: dict, metadata: dict) -> None:
    """A safetensors file whose bytes depend on nothing but the arguments."""
    data = save({name: t.cpu().contiguous() for name, t in tensors.items()}, metadata)
    # The library writes the metadata in the random order of a hash table.
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[:8] + header.encode().ljust(length) + data[8 + length :])


def _state(module: torch.nn.Module, dtype: torch.dtype) -> dict:
    return {name: t.to(dtype) for name, t in module.state_dict().items()}


def write_folder(
    root: Path,
    transformer: WanTransformer,
    text_encoder: UMT5Encoder,
    tokenizer: Tokenizer,
    defaults: Defaults,
    dtype: torch.dtype = torch.float16,
    videos: tuple[Format, ...] = (),
) -> None:
    """videos: what it was trained on; none: only what the defaults make."""
    config = transformer.config
    write_json(root / "model_index.json", model_index_json(config, defaults, videos))
    write_json(root / "scheduler/scheduler_config.json", scheduler_json())
    write_json(root / "transformer/config.json", transformer_json(config))
    write_json(root / "text_encoder/config.json", text_encoder_json(text_encoder.config))
    tile = ",".join(map(str, config.tile_shape))
    vsa = {"format": "pt", "vsa.tile": tile, "vsa.sparsity": str(defaults.sparsity)}
    weights = root / "transformer/diffusion_pytorch_model.safetensors"
    write_tensors(weights, _state(transformer, dtype), vsa)
    weights = root / "text_encoder/model.safetensors"
    write_tensors(weights, _state(text_encoder, dtype), {"format": "pt"})
    (root / "tokenizer").mkdir(exist_ok=True)
    (root / "tokenizer/spiece.model").write_bytes(tokenizer.model)


def _fields(cls: type, value: dict) -> dict:
    known = {field.name for field in dataclasses.fields(cls)}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k in known}


def read_folder(root: Path) -> tuple[WanTransformer, UMT5Encoder, Tokenizer, Defaults]:
    """The models in fp32, whatever the file holds."""
    vsa = json.loads((root / "model_index.json").read_text())["vsa"]
    wan = json.loads((root / "transformer/config.json").read_text())
    transformer = WanTransformer(WanConfig(**_fields(WanConfig, wan), tile_shape=tuple(vsa["tile"])))
    umt5 = json.loads((root / "text_encoder/config.json").read_text())
    text_encoder = UMT5Encoder(UMT5Config(**_fields(UMT5Config, umt5)))
    weights = root / "transformer/diffusion_pytorch_model.safetensors"
    transformer.load_state_dict(load_file(weights))
    text_encoder.load_state_dict(load_file(root / "text_encoder/model.safetensors"))
    tokenizer = Tokenizer.from_file(root / "tokenizer/spiece.model")
    return transformer, text_encoder, tokenizer, Defaults(**_fields(Defaults, vsa))
