"""Writes tests/golden/umt5-tiny: a umT5 encoder of random weights, and what transformers makes of it.

Run from the root of the repository, with the packages of tests/torch/requirements.txt:
    python tools/make_umt5_golden.py
"""
from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import wan_shapes  # noqa: E402
import write_wan_folder  # noqa: E402
from training.folder import write_tensors  # noqa: E402

# All widths differ, so that none can stand for another.
CONFIG = {"vocab_size": 96, "d_model": 24, "d_kv": 8, "d_ff": 37, "num_heads": 4, "num_layers": 3}
SEED = 41
# Tokens alone, fewer than the buckets of single distances, and more than the largest distance.
LENGTHS = (1, 2, 20, 300)
PADDED = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden/umt5-tiny")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shutil.rmtree(args.out, ignore_errors=True)
    config = {**wan_shapes.TEXT_ENCODER, **CONFIG}
    write_wan_folder.write_json(args.out / "config.json", config)
    # bf16, as Wan's file is; the computation is in f32.
    how = argparse.Namespace(names="diffusers", shard_bytes=1 << 30, seed=SEED)
    write_wan_folder.write_part(args.out, "model", wan_shapes.text_encoder(config), write_wan_folder.STORAGE["bf16"], how)
    model = transformers.UMT5EncoderModel.from_pretrained(args.out, dtype=torch.float32).eval()

    generator = torch.Generator().manual_seed(SEED)
    expected = {}
    for length in LENGTHS:
        ids = torch.randint(2, CONFIG["vocab_size"], (1, PADDED), generator=generator)
        ids[0, length - 1] = config["eos_token_id"]
        # Behind the valid ids any may stand: the mask takes them away, as diffusers' pipeline takes away their rows.
        mask = (torch.arange(PADDED) < length).long()[None]
        with torch.no_grad():
            hidden = model(ids, mask).last_hidden_state[0, :length]
        expected |= {f"{length}.ids": ids[0, :length].int(), f"{length}.hidden": hidden}
    write_tensors(args.out / "expected.safetensors", {n: t.contiguous() for n, t in expected.items()},
                  {"transformers": transformers.__version__})
    for path in sorted(p for p in args.out.rglob("*") if p.is_file()):
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(args.out))


if __name__ == "__main__":
    main()
