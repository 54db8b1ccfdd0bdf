#!/usr/bin/env python3
"""Writes a Wan2.1 model of random weights in diffusers' folder layout: true names, shapes, types and shards.

For tests and measurements where no weights can be downloaded. Every number is other than zero, and so large that each
block changes what goes through it by about its own size; Wan's own initialisation leaves the output layer and the gates
zero, and then nothing that a block computes is seen. The same options give the same bytes. Needs NumPy.

    tools/write_wan_folder.py out/wan --model 1.3B                 # 1.3B with umT5-XXL and VAE: 14.7 GB
    tools/write_wan_folder.py out/wan --model 14B --gates --dtype f32
    tools/write_wan_folder.py out/tiny --model tiny --dtype f32
"""
from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import wan_shapes
from wan_shapes import Tensor

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 1 << 23  # numbers of one seed


class Storage:
    """A float type as bits: an exponent of `bias` means 1, with `mantissa` bits below it."""

    def __init__(self, name: str, bits: np.dtype, mantissa: int, bias: int):
        self.name, self.bits, self.mantissa, self.bias = name, np.dtype(bits), mantissa, bias

    def random(self, tensor: Tensor, seed: list[int], count: int) -> np.ndarray:
        """Sign and mantissa are random bits and the exponent is fixed: numbers from a power of two to twice that, of
        either sign; or, for a scale, from its power of two to 1.25 times that."""
        words = np.random.SFC64(np.random.SeedSequence(seed)).random_raw(-(-count * self.bits.itemsize // 8))
        values = words.astype("<u8", copy=False).view(self.bits)[:count]
        if tensor.rms is None:
            power, kept = math.log2(tensor.least), (1 << (self.mantissa - 2)) - 1
        else:
            power = math.log2(tensor.rms / math.sqrt(7 / 3))  # of numbers spread evenly over [1, 2)
            kept = (1 << (8 * self.bits.itemsize - 1)) | ((1 << self.mantissa) - 1)
        exponent = self.bias + round(power)
        if not 1 <= exponent < 2 * self.bias:
            raise ValueError(f"{tensor.name}: 2^{round(power)} is not a normal number of {self.name}")
        values &= self.bits.type(kept)
        values |= self.bits.type(exponent << self.mantissa)
        return values


STORAGE = {"f32": Storage("F32", "<u4", 23, 127), "bf16": Storage("BF16", "<u2", 7, 127),
           "f16": Storage("F16", "<u2", 10, 15)}


def elements(tensor: Tensor) -> int:
    return math.prod(tensor.shape)


def write_file(path: Path, tensors: list[Tensor], names: dict[str, str], storage: Storage, seed: int) -> None:
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        size = elements(tensor) * storage.bits.itemsize
        header[names[tensor.name]] = {"dtype": storage.name, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
        file.flush()

        def write(work: tuple[Tensor, int]) -> None:
            tensor, first = work
            count = min(CHUNK, elements(tensor) - first)
            # Of the name, so that a model with gates, or of other shards, has the same numbers in all other tensors.
            values = storage.random(tensor, [seed, zlib.crc32(tensor.name.encode()), first // CHUNK], count)
            offset = header[names[tensor.name]]["data_offsets"][0] + first * storage.bits.itemsize
            rest = memoryview(values).cast("B")
            offset += 8 + len(text)
            while rest:
                written = os.pwrite(file.fileno(), rest, offset)
                rest, offset = rest[written:], offset + written

        work = [(tensor, first) for tensor in tensors for first in range(0, elements(tensor), CHUNK)]
        with ThreadPoolExecutor() as pool:
            for _ in pool.map(write, work):
                pass


def shards(tensors: list[Tensor], limit: int, storage: Storage) -> list[list[Tensor]]:
    """In order, each as full as the limit allows, as save_pretrained makes them."""
    parts: list[list[Tensor]] = [[]]
    filled = 0
    for tensor in tensors:
        size = elements(tensor) * storage.bits.itemsize
        if parts[-1] and filled + size > limit:
            parts.append([])
            filled = 0
        parts[-1].append(tensor)
        filled += size
    return parts


def write_part(folder: Path, stem: str, tensors: list[Tensor], storage: Storage, args: argparse.Namespace) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = {t.name: t.wan if args.names == "wan" else t.name for t in tensors}
    parts = shards(tensors, args.shard_bytes, storage)
    files = [f"{stem}.safetensors" if len(parts) == 1 else f"{stem}-{i + 1:05}-of-{len(parts):05}.safetensors"
             for i in range(len(parts))]
    for file, part in zip(files, parts):
        write_file(folder / file, part, names, storage, args.seed)
    if len(parts) > 1:
        total = sum(map(elements, tensors)) * storage.bits.itemsize
        weight_map = {names[t.name]: file for file, part in zip(files, parts) for t in part}
        write_json(folder / f"{stem}.safetensors.index.json",
                   {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})


def write_json(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def scheduler_config(shift: float) -> dict:
    """As diffusers' converter of Wan2.1 saves it."""
    return {"_class_name": "UniPCMultistepScheduler", "beta_end": 0.02, "beta_schedule": "linear", "beta_start": 0.0001,
            "disable_corrector": [], "dynamic_thresholding_ratio": 0.995, "final_sigmas_type": "zero",
            "flow_shift": shift, "lower_order_final": True, "num_train_timesteps": 1000, "predict_x0": True,
            "prediction_type": "flow_prediction", "rescale_betas_zero_snr": False, "sample_max_value": 1.0,
            "solver_order": 2, "solver_p": None, "solver_type": "bh2", "steps_offset": 0, "thresholding": False,
            "timestep_spacing": "linspace", "trained_betas": None, "use_beta_sigmas": False,
            "use_exponential_sigmas": False, "use_flow_sigmas": True, "use_karras_sigmas": False}


def wans_config(config: dict) -> dict:
    """config.json of Wan's own folders, which leaves out what all its models share; where a tiny one differs in that, it
    is there."""
    own = {"num_heads": "num_attention_heads", "in_dim": "in_channels", "out_dim": "out_channels", "eps": "eps",
           "ffn_dim": "ffn_dim", "freq_dim": "freq_dim", "num_layers": "num_layers"}
    rest = {key: value for key, value in config.items()
            if key not in ("attention_head_dim", *own.values()) and value != wan_shapes.TRANSFORMER[key]}
    return {"_class_name": "WanModel", "_diffusers_version": "0.30.0", "model_type": "t2v", "text_len": 512,
            "dim": config["num_attention_heads"] * config["attention_head_dim"],
            **{ours: config[theirs] for ours, theirs in own.items()}, **rest}


def write_transformer(root: Path, args: argparse.Namespace) -> None:
    config = {**wan_shapes.TRANSFORMER, **wan_shapes.TRANSFORMERS[args.model]}
    if args.layers:
        config["num_layers"] = args.layers
    gate = {None: None, "plain": "", "attn1": "attn1."}[args.gates]
    diffusers_config = {"_class_name": "WanTransformer3DModel", **config}
    write_json(root / "config.json", wans_config(config) if args.names == "wan" else diffusers_config)
    write_part(root, "diffusion_pytorch_model", wan_shapes.transformer(config, gate), STORAGE[args.dtype], args)


def write_text_encoder(root: Path, args: argparse.Namespace) -> None:
    config = {**wan_shapes.TEXT_ENCODER, **wan_shapes.TEXT_ENCODERS["tiny" if args.model == "tiny" else "xxl"]}
    if args.text_layers:
        config["num_layers"] = args.text_layers
    write_json(root / "config.json", config)
    write_part(root, "model", wan_shapes.text_encoder(config), STORAGE[args.text_dtype or args.dtype], args)


def write_vae(root: Path, args: argparse.Namespace) -> None:
    config = {**wan_shapes.VAE, **wan_shapes.VAES["tiny" if args.model == "tiny" else "wan"]}
    write_json(root / "config.json",
               {"_class_name": "AutoencoderKLWan", **config, "latents_mean": wan_shapes.LATENTS_MEAN,
                "latents_std": wan_shapes.LATENTS_STD})
    write_part(root, "diffusion_pytorch_model", wan_shapes.vae(config), STORAGE[args.vae_dtype], args)


def write_rest(root: Path, args: argparse.Namespace) -> None:
    write_json(root / "model_index.json", {
        "_class_name": "WanDMDPipeline" if args.fastwan else "WanPipeline", "_diffusers_version": "0.33.0",
        "scheduler": ["diffusers", "UniPCMultistepScheduler"], "text_encoder": ["transformers", "UMT5EncoderModel"],
        "tokenizer": ["transformers", "T5TokenizerFast"], "transformer": ["diffusers", "WanTransformer3DModel"],
        "vae": ["diffusers", "AutoencoderKLWan"]})
    write_json(root / "scheduler/scheduler_config.json", scheduler_config(args.shift))
    (root / "tokenizer").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(args.tokenizer, root / "tokenizer/spiece.model")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder, which must not be there yet")
    parser.add_argument("--model", choices=wan_shapes.TRANSFORMERS, required=True)
    parser.add_argument("--parts", nargs="+", choices=["transformer", "text_encoder", "vae"],
                        default=["transformer", "text_encoder", "vae"], help="default: all")
    parser.add_argument("--dtype", choices=STORAGE, default="bf16", help="of transformer and text encoder")
    parser.add_argument("--text-dtype", choices=STORAGE, help="of the text encoder, if another")
    parser.add_argument("--vae-dtype", choices=STORAGE, default="f32")
    parser.add_argument("--gates", nargs="?", const="plain", choices=["plain", "attn1"],
                        help="with blocks.N.to_gate_compress, or with blocks.N.attn1.to_gate_compress")
    parser.add_argument("--fastwan", action="store_true", help="with the pipeline class of FastWan2.1, and its gates")
    parser.add_argument("--names", choices=["diffusers", "wan"], default="diffusers",
                        help="wan: transformer (with its config.json) and VAE as Wan's own files name them")
    parser.add_argument("--layers", type=int, help="of the transformer, if fewer")
    parser.add_argument("--text-layers", type=int, help="of the text encoder, if fewer")
    parser.add_argument("--shift", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard-bytes", type=int, default=5 * 10**9)
    parser.add_argument("--tokenizer", type=Path, default=ROOT / "models/wan-toy/tokenizer/spiece.model",
                        help="a SentencePiece model; umT5's own cannot be made up")
    args = parser.parse_args(argv)
    if args.fastwan and args.gates is None:
        args.gates = "plain"
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if args.out.exists():
        print(f"write_wan_folder: {args.out}: expected a new folder, got one that is there", file=sys.stderr)
        return 1
    write = {"transformer": write_transformer, "text_encoder": write_text_encoder, "vae": write_vae}
    write_rest(args.out, args)
    for part in args.parts:
        write[part](args.out / part, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
