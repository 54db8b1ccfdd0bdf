"""Writes tests/golden/wan-tiny: a tiny random model with the outputs that a runtime must match.

Run from the root of the repository, with the packages of training/README.md:
    python tools/make_golden.py                  # writes the files and their table of hashes
    python tools/make_golden.py --check-upstream # also compares with diffusers and transformers
"""
from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from training import attention, folder  # noqa: E402
from training.model import WanConfig, WanTransformer  # noqa: E402
from training.text_encoder import UMT5Config, UMT5Encoder  # noqa: E402
from training.tokenizer import MAX_LENGTH, Tokenizer, train_tokenizer  # noqa: E402

SEED = 22
TOPK = 2
GRIDS = {"partial": (5, 6, 7), "full": (4, 8, 8)}  # tokens; tiles of 4x4x4
PROMPT = "a small red star moving left"
SENTENCES = [
    f"a {size} {colour} {shape} moving {way}"
    for size in ("small", "large")
    for colour in ("red", "green", "blue")
    for shape in ("circle", "star", "square")
    for way in ("left", "right")
]
# A float32 runtime rounds scores by about 1e-6 of their size, so no row may choose between tiles
# that are nearer than this.
MIN_SCORE_GAP = 1e-3


def make_models() -> tuple[WanTransformer, UMT5Encoder, Tokenizer]:
    # Without a normalisation table the tokenizer is 3 KB and not 240.
    tokenizer = Tokenizer(train_tokenizer(SENTENCES, vocab_size=72, rule="identity"))
    wan = WanTransformer(
        WanConfig(
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=16,
            in_channels=4,
            out_channels=4,
            text_dim=24,
            freq_dim=32,
            ffn_dim=48,
            num_layers=2,
        )
    )
    umt5 = UMT5Encoder(
        UMT5Config(vocab_size=tokenizer.vocab_size, d_model=24, d_kv=8, num_heads=3, d_ff=40)
    )
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in [*wan.named_parameters(), *umt5.named_parameters()]:
        # Far from any initialisation: each weight, bias and norm shows in the outputs.
        std = 0.15 if parameter.dim() > 1 else 0.3
        parameter.data = torch.randn(parameter.shape, generator=generator) * std
        if "norm" in name and name.endswith("weight"):
            parameter.data += 1.0
    return wan.requires_grad_(False), umt5.requires_grad_(False), tokenizer


def score_gaps(wan: WanTransformer, inputs: tuple) -> float:
    """The smallest difference between a kept and a dropped score in a run of the model."""
    gaps = []
    select = attention.select

    def spy(scores: torch.Tensor, topk: int) -> torch.Tensor:
        ordered = scores.sort(-1, descending=True).values
        gaps.append((ordered[..., topk - 1] - ordered[..., topk]).min().item())
        return select(scores, topk)

    attention.select = spy
    try:
        wan(*inputs, topk=TOPK)
    finally:
        attention.select = select
    return min(gaps)


def run(wan: WanTransformer, umt5: UMT5Encoder, tokenizer: Tokenizer) -> dict[str, torch.Tensor]:
    ids = tokenizer.encode([PROMPT])
    text = umt5(ids)
    tensors = {"text.ids": ids.int(), "text.hidden": text}
    generator = torch.Generator().manual_seed(SEED + 1)
    for name, (f, h, w) in GRIDS.items():
        latent = torch.randn(1, 4, f, 2 * h, 2 * w, generator=generator)
        inputs = (latent, torch.tensor([757.25]), text)
        gap = score_gaps(wan, inputs)
        if not gap > MIN_SCORE_GAP:
            raise SystemExit(f"grid {name}: scores {gap:.1e} apart decide the selection, change SEED")
        tensors |= {f"{name}.latent": latent, f"{name}.timestep": inputs[1]}
        plan = attention.tile_plan((f, h, w), wan.config.tile_shape, latent.device)
        block_out = []
        hook = wan.blocks[0].register_forward_hook(lambda _, __, x: block_out.append(x))
        for mode, topk in (("dense", None), (f"topk{TOPK}", TOPK)):
            tensors[f"{name}.velocity.{mode}"] = wan(*inputs, topk=topk)
            tensors[f"{name}.block0.{mode}"] = block_out.pop()[:, plan.inverse]  # raster order
        hook.remove()
    return {name: t.contiguous() for name, t in tensors.items()}


def check_upstream(wan: WanTransformer, umt5: UMT5Encoder, expected: dict) -> None:
    """Compares with the published implementations; the gate is the one thing they lack."""
    import diffusers
    import transformers

    def rel_l2(ours: torch.Tensor, theirs: torch.Tensor) -> float:
        return ((ours - theirs).double().norm() / theirs.double().norm()).item()

    config = folder.transformer_json(wan.config)
    del config["_class_name"]
    reference = diffusers.WanTransformer3DModel(**config).eval()
    state = {n: t for n, t in wan.state_dict().items() if "to_gate_compress" not in n}
    reference.load_state_dict(state)
    ungated = WanTransformer(wan.config).requires_grad_(False)
    ungated.load_state_dict(wan.state_dict())
    for block in ungated.blocks:
        torch.nn.init.zeros_(block.to_gate_compress.weight)
        torch.nn.init.zeros_(block.to_gate_compress.bias)
    for name in GRIDS:
        inputs = (expected[f"{name}.latent"], expected[f"{name}.timestep"], expected["text.hidden"])
        with torch.no_grad():
            theirs = reference(*inputs, return_dict=False)[0]
        print(f"diffusers {diffusers.__version__}, grid {name}: {rel_l2(ungated(*inputs), theirs):.1e}")

    config = folder.text_encoder_json(umt5.config)
    encoder = transformers.UMT5EncoderModel(transformers.UMT5Config(**config)).eval()
    state = {**umt5.state_dict(), "encoder.embed_tokens.weight": umt5.shared.weight}
    encoder.load_state_dict(state)
    ids = expected["text.ids"].long()
    mask = (ids != 0).long()
    with torch.no_grad():
        theirs = encoder(input_ids=ids, attention_mask=mask).last_hidden_state * mask[..., None]
    print(f"transformers {transformers.__version__}, umT5: {rel_l2(umt5(ids), theirs):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden/wan-tiny")
    parser.add_argument("--check-upstream", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    wan, umt5, tokenizer = make_models()
    expected = run(wan, umt5, tokenizer)
    defaults = folder.Defaults(
        steps=4, guidance=1.5, sparsity=0.5, frames=5, height=12, width=14
    )
    folder.write_folder(args.out, wan, umt5, tokenizer, defaults, torch.float32)
    note = {"prompt": PROMPT, "topk": str(TOPK), "seed": str(SEED)}
    folder.write_tensors(args.out / "expected.safetensors", expected, note)
    if args.check_upstream:
        check_upstream(wan, umt5, expected)
    for path in sorted(p for p in args.out.rglob("*") if p.is_file()):
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(args.out))


if __name__ == "__main__":
    main()
