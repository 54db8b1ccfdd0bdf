"""Writes tests/golden/wan-vae-*: tiny random VAEs with what diffusers' AutoencoderKLWan makes of them.

Run from the root of the repository, with diffusers:
    python tools/make_vae_golden.py     # writes the files and their table of hashes
"""
from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import diffusers
import torch
from diffusers.loaders.single_file_utils import convert_wan_vae_to_diffusers
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
SEED = 9
# Where a norm divides by a number near zero, rounding (1e-7 of values of order 1) is magnified: no pixel
# of the golden runs may be that near. A norm over one channel, which the smallest model has, is the sign
# of a number: it magnifies nothing as long as rounding does not turn the sign.
MIN_NORM = 1e-2
MIN_NORM_OF_ONE = 1e-5

MODELS = {
    # The model of diffusers' own tests.
    "wan-vae-tiny": {
        "config": {
            "base_dim": 3,
            "z_dim": 16,
            "dim_mult": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "temperal_downsample": [False, True, True],
        },
        "latents": (16, 3, 3, 2),
        "dtype": torch.float32,
    },
    # Channels that change everywhere, as in the published model; frames are doubled in another place.
    "wan-vae-uneven": {
        "config": {
            "base_dim": 4,
            "z_dim": 3,
            "dim_mult": [1, 2, 2],
            "num_res_blocks": 2,
            "temperal_downsample": [True, False],
            "latents_mean": [0.25, -0.5, 0.125],
            "latents_std": [1.5, 0.75, 2.0],
            "scale_factor_spatial": 4,
            "scale_factor_temporal": 2,
        },
        "latents": (3, 3, 5, 3),
        "dtype": torch.bfloat16,
    },
}


def make_model(config: dict, dtype: torch.dtype) -> diffusers.AutoencoderKLWan:
    model = diffusers.AutoencoderKLWan(**config).requires_grad_(False)
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith("gamma"):
            values = 1.0 + 0.3 * values
        elif name.endswith("bias"):
            values *= 0.3
        else:  # of convolutions: outputs of about the size of the inputs
            values *= parameter[0].numel() ** -0.5
        if name == "decoder.conv_out.weight":
            values *= 0.8  # few pixels are clamped
        parameter.data = values.to(dtype).float()
    return model.eval()


def check_norms(name: str, model: torch.nn.Module, run) -> None:
    """Fails if a norm layer sees a pixel near zero in a run."""
    smallest = {}

    def watch(_, inputs):
        channels = min(inputs[0].shape[1], 2)
        norm = inputs[0].norm(dim=1).min().item()
        smallest[channels] = min(norm, smallest.get(channels, norm))

    hooks = [module.register_forward_pre_hook(watch) for module in model.modules()
             if type(module).__name__ == "WanRMS_norm"]
    run()
    for hook in hooks:
        hook.remove()
    for channels, norm in sorted(smallest.items()):
        kind = "one channel" if channels == 1 else "several channels"
        print(f"{name}: smallest norm of a pixel of {kind}: {norm:.1e}")
        if not norm > (MIN_NORM_OF_ONE if channels == 1 else MIN_NORM):
            raise SystemExit(f"{name}: rounding is magnified too much, change SEED")


def run(model: diffusers.AutoencoderKLWan, shape: tuple) -> dict[str, torch.Tensor]:
    """Latents as the transformer makes them, their frames, and the latents of these frames."""
    per_channel = (1, -1, 1, 1, 1)
    mean = torch.tensor(model.config.latents_mean).view(per_channel)
    std = torch.tensor(model.config.latents_std).view(per_channel)
    latents = torch.randn(1, *shape, generator=torch.Generator().manual_seed(SEED + 1))
    frames = model.decode(latents * std + mean).sample
    clamped = (frames.abs() == 1).float().mean().item()
    print(f"frames {tuple(frames.shape)}, of which clamped {clamped:.1%}, std {frames.std():.2f}")
    for n in range(1, shape[1]):  # a shorter video is the beginning of a longer one
        shorter = model.decode(latents[:, :, :n] * std + mean).sample
        torch.testing.assert_close(shorter, frames[:, :, : shorter.shape[2]], rtol=0, atol=1e-5)
    encoded = (model.encode(frames).latent_dist.mode() - mean) / std
    return {"latents": latents[0], "frames": frames[0], "encoded": encoded[0]}


def wan_name(name: str) -> str:
    """The name that Wan gives a tensor of the published structure."""
    for ours, theirs in (
        ("quant_conv.", "conv1."),
        ("post_conv1.", "conv2."),  # what the line above makes of post_quant_conv
        ("conv_in.", "conv1."),
        ("mid_block.resnets.0.", "middle.0."),
        ("mid_block.attentions.0.", "middle.1."),
        ("mid_block.resnets.1.", "middle.2."),
        ("norm_out.", "head.0."),
        ("conv_out.", "head.2."),
    ):
        name = name.replace(ours, theirs)
    parts = name.split(".")
    if "up_blocks" in parts:
        level, module, index = int(parts[2]), parts[3], int(parts[4])
        parts[1:5] = ["upsamples", str(4 * level + (index if module == "resnets" else 3))]
    if "down_blocks" in parts:
        parts[1] = "downsamples"
    in_block = {"norm1": "residual.0", "conv1": "residual.2", "norm2": "residual.3",
                "conv2": "residual.6", "conv_shortcut": "shortcut"}
    if parts[0] in ("encoder", "decoder"):
        parts[2:] = [in_block.get(part, part) for part in parts[2:]]
    return ".".join(parts)


def write_names(path: Path) -> None:
    """Each tensor of the published structure: Wan's name, diffusers' name, shape."""
    with torch.device("meta"):
        state = diffusers.AutoencoderKLWan().state_dict()
    original = {wan_name(name): name for name in state}
    converted = convert_wan_vae_to_diffusers({theirs: theirs for theirs in original})
    if {ours: theirs for theirs, ours in original.items()} != converted:
        raise SystemExit("diffusers converts other names than wan_name makes")
    lines = [f"{theirs} {ours} {','.join(map(str, state[ours].shape))}\n"
             for theirs, ours in sorted(original.items())]
    path.write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests/golden")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"diffusers {diffusers.__version__}, PyTorch {torch.__version__}, seed {SEED}")
    written = [args.out / "wan-vae-names.txt"]
    write_names(written[0])
    for name, spec in MODELS.items():
        model = make_model(spec["config"], spec["dtype"])
        expected = {}
        check_norms(name, model, lambda: expected.update(run(model, spec["latents"])))
        folder = args.out / name
        save_file({k: v.contiguous() for k, v in expected.items()}, _made(folder) / "expected.safetensors")
        model.to(spec["dtype"]).save_pretrained(folder)
        written += sorted(p for p in folder.rglob("*") if p.is_file())
    for path in written:
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(args.out),
              path.stat().st_size)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
