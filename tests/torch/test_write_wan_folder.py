"""tools/write_wan_folder.py: the names and shapes of diffusers and transformers, and weights that do something."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
diffusers = pytest.importorskip("diffusers")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

import wan_shapes  # noqa: E402
import write_wan_folder  # noqa: E402


@pytest.fixture
def write(tmp_path):
    """write(option, ...): the folder of a tiny model."""

    def folder(*options, name="model"):
        assert write_wan_folder.main([str(tmp_path / name), "--model", "tiny", "--dtype", "f32", *options]) == 0
        return tmp_path / name

    yield folder
    for written in tmp_path.iterdir():  # pytest would keep those of three runs
        shutil.rmtree(written)


def tensors(folder):
    """All tensors of a part, whatever the shards."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        found.update(safetensors.load_file(path))
    return found


def shapes(model):
    return {name: tuple(t.shape) for name, t in model.state_dict().items()}


def listed(part):
    return {t.name: t.shape for t in part}


@pytest.mark.parametrize("size", wan_shapes.TRANSFORMERS)
def test_the_transformer_is_that_of_diffusers(size):
    config = {**wan_shapes.TRANSFORMER, **wan_shapes.TRANSFORMERS[size]}
    with torch.device("meta"):
        model = diffusers.WanTransformer3DModel(**config)
    assert listed(wan_shapes.transformer(config)) == shapes(model)
    numbers = {"1.3B": 1_418_996_800, "14B": 14_288_491_584}
    assert size not in numbers or sum(p.numel() for p in model.parameters()) == numbers[size]


@pytest.mark.parametrize("size", wan_shapes.TEXT_ENCODERS)
def test_the_text_encoder_is_that_of_transformers(size):
    config = {**wan_shapes.TEXT_ENCODER, **wan_shapes.TEXT_ENCODERS[size]}
    with torch.device("meta"):
        expected = shapes(transformers.UMT5EncoderModel(transformers.UMT5Config(**config)))
    assert expected.pop("encoder.embed_tokens.weight") == expected["shared.weight"]  # one table of two names
    assert listed(wan_shapes.text_encoder(config)) == expected


@pytest.mark.parametrize("size", wan_shapes.VAES)
def test_the_vae_is_that_of_diffusers(size):
    config = {**wan_shapes.VAE, **wan_shapes.VAES[size]}
    with torch.device("meta"):
        expected = shapes(diffusers.AutoencoderKLWan(**config))
    assert listed(wan_shapes.vae(config)) == expected


def test_wans_own_names():
    config = wan_shapes.TRANSFORMERS["tiny"]
    names = {t.name: t.wan for t in wan_shapes.transformer(config, gate="")}
    assert len(set(names.values())) == len(names)
    assert names["blocks.1.norm2.weight"] == "blocks.1.norm3.weight"
    assert names["blocks.1.attn2.to_out.0.bias"] == "blocks.1.cross_attn.o.bias"
    assert names["scale_shift_table"] == "head.modulation"
    assert names["blocks.0.scale_shift_table"] == "blocks.0.modulation"
    assert names["blocks.0.to_gate_compress.bias"] == "blocks.0.to_gate_compress.bias"
    names = {t.name: t.wan for t in wan_shapes.vae(wan_shapes.VAES["wan"])}
    assert len(set(names.values())) == len(names)
    assert names["decoder.up_blocks.3.resnets.2.conv2.weight"] == "decoder.upsamples.14.residual.6.weight"
    assert names["decoder.up_blocks.1.upsamplers.0.time_conv.bias"] == "decoder.upsamples.7.time_conv.bias"
    assert names["encoder.down_blocks.10.norm2.gamma"] == "encoder.downsamples.10.residual.3.gamma"
    assert names["quant_conv.weight"] == "conv1.weight"


@pytest.mark.parametrize("options", [(), ("--shard-bytes", "50000")])
def test_diffusers_loads_the_folder(write, options):
    folder = write(*options)
    assert (folder / "transformer/diffusion_pytorch_model.safetensors.index.json").exists() == bool(options)
    for part, cls in (("transformer", diffusers.WanTransformer3DModel), ("vae", diffusers.AutoencoderKLWan),
                      ("text_encoder", transformers.UMT5EncoderModel)):
        model = cls.from_pretrained(folder / part)
        for name, t in tensors(folder / part).items():
            assert torch.equal(model.state_dict()[name], t), name
    encoder = transformers.UMT5EncoderModel.from_pretrained(folder / "text_encoder")
    assert torch.equal(encoder.encoder.embed_tokens.weight, encoder.shared.weight)
    scheduler = diffusers.UniPCMultistepScheduler.from_pretrained(folder / "scheduler")
    assert scheduler.config.flow_shift == 3.0 and scheduler.config.use_flow_sigmas


@torch.no_grad()
def test_every_block_changes_the_residual_by_its_own_order(write):
    model = diffusers.WanTransformer3DModel.from_pretrained(write() / "transformer").eval()
    changes = []
    for block in model.blocks:
        block.register_forward_hook(lambda _, args, out: changes.append(((out - args[0]).norm() / args[0].norm()).item()))
    generator = torch.Generator().manual_seed(1)
    latents, text = (torch.randn(*shape, generator=generator) for shape in ((1, 16, 3, 8, 8), (1, 12, 32)))
    velocity = model(latents, torch.tensor([500]), text, return_dict=False)[0]
    assert len(changes) == 2 and all(0.2 < change < 5 for change in changes), changes
    assert 0.2 < velocity.std() < 5


@torch.no_grad()
def test_every_layer_of_the_text_encoder_does_too(write):
    model = transformers.UMT5EncoderModel.from_pretrained(write() / "text_encoder").eval()
    changes = []
    for block in model.encoder.block:
        block.register_forward_hook(
            lambda _, args, out: changes.append(((out[0] - args[0]).norm() / args[0].norm()).item()))
    hidden = model(torch.arange(2, 22)[None]).last_hidden_state
    assert len(changes) == 3 and all(0.2 < change < 5 for change in changes), changes
    assert 0.2 < hidden.std() < 5


@torch.no_grad()
@pytest.mark.parametrize("size", wan_shapes.VAES)
def test_the_vae_spans_what_it_is_clamped_to(write, size, monkeypatch):
    monkeypatch.setitem(wan_shapes.VAES, "tiny", wan_shapes.VAES[size])
    vae = diffusers.AutoencoderKLWan.from_pretrained(write("--parts", "vae", "--vae-dtype", "bf16") / "vae").eval()
    latents = torch.randn(1, 16, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    frames = vae.decode(latents * 2, return_dict=False)[0]
    inside = (frames.abs() < 1).float().mean().item()
    assert frames.min() < -0.9 and frames.max() > 0.9 and 0.5 < inside, (frames.min(), frames.max(), inside)
    assert 0.1 < vae.encode(frames).latent_dist.mean.std() < 10


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_no_number_is_zero_and_the_size_is_the_wanted_one(write, dtype):
    folder = write("--dtype", dtype, "--vae-dtype", dtype)
    for part, listing in (("transformer", wan_shapes.transformer(wan_shapes.TRANSFORMERS["tiny"])),
                          ("text_encoder", wan_shapes.text_encoder(wan_shapes.TEXT_ENCODERS["tiny"])),
                          ("vae", wan_shapes.vae(wan_shapes.VAES["tiny"]))):
        found = tensors(folder / part)
        for tensor in listing:
            values = found[tensor.name].float()
            assert found[tensor.name].dtype == {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
            assert (values != 0).all() and values.isfinite().all(), tensor.name
            if tensor.rms is None:
                assert (values >= tensor.least).all() and (values < 1.25 * tensor.least).all(), tensor.name
            else:  # the nearest power of two
                least = tensor.rms / (7 / 3)**0.5
                assert (values.abs() > 0.7 * least).all() and (values.abs() < 2.83 * least).all(), tensor.name
                assert values.numel() < 64 or abs(values.sign().mean()) < 0.6, tensor.name


def test_the_same_options_give_the_same_bytes(write):
    weights = "transformer/diffusion_pytorch_model.safetensors"
    first = (write(name="a") / weights).read_bytes()
    assert (write(name="b") / weights).read_bytes() == first
    assert (write("--seed", "2", name="c") / weights).read_bytes() != first


def test_gates_of_both_names_and_the_rest_as_without(write):
    plain = tensors(write(name="without") / "transformer")
    for option, prefix in (("plain", ""), ("attn1", "attn1.")):
        gated = tensors(write("--gates", option, name=option) / "transformer")
        gates = {f"blocks.{n}.{prefix}to_gate_compress.{part}" for n in (0, 1) for part in ("weight", "bias")}
        assert set(gated) - set(plain) == gates
        assert all(torch.equal(gated[name], t) for name, t in plain.items())


def test_fastwan_has_gates_and_its_own_pipeline(write):
    folder = write("--fastwan")
    assert json.loads((folder / "model_index.json").read_text())["_class_name"] == "WanDMDPipeline"
    assert "blocks.1.to_gate_compress.weight" in tensors(folder / "transformer")


def test_wans_names_hold_the_same_numbers(write):
    ours, theirs = (tensors(write("--names", names, name=names) / "vae") for names in ("diffusers", "wan"))
    assert torch.equal(theirs["decoder.head.2.weight"], ours["decoder.conv_out.weight"])
    assert len(ours) == len(theirs)


def test_wans_config_says_what_its_own_does():
    config = {**wan_shapes.TRANSFORMER, **wan_shapes.TRANSFORMERS["14B"]}
    assert write_wan_folder.wans_config(config) == {
        "_class_name": "WanModel", "_diffusers_version": "0.30.0", "dim": 5120, "eps": 1e-06, "ffn_dim": 13824,
        "freq_dim": 256, "in_dim": 16, "model_type": "t2v", "num_heads": 40, "num_layers": 40, "out_dim": 16,
        "text_len": 512}


def test_the_config_goes_with_the_names(write):
    config = json.loads((write("--names", "wan") / "transformer/config.json").read_text())
    assert (config["dim"], config["num_heads"], config["text_dim"], config["rope_max_seq_len"]) == (24, 2, 32, 32)


def test_shards_have_an_index_of_all_tensors(write):
    folder = write("--shard-bytes", "50000") / "transformer"
    index = json.loads((folder / "diffusion_pytorch_model.safetensors.index.json").read_text())
    for path in folder.glob("*.safetensors"):
        assert path.stat().st_size < 60000
        for name in safetensors.load_file(path):
            assert index["weight_map"].pop(name) == path.name
    assert not index["weight_map"]
    assert index["metadata"]["total_size"] == sum(4 * t.numel() for t in tensors(folder).values())


def test_a_folder_that_is_there_is_left_alone(write, capsys):
    folder = write()
    assert write_wan_folder.main([str(folder), "--model", "tiny"]) == 1
    assert "expected a new folder" in capsys.readouterr().err
