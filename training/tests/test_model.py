"""The transformer and text encoder: names, shapes, and the golden files."""
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from training import folder
from training.formats import SMALL, WIDE
from training.model import WanConfig, WanTransformer, initialise
from training.text_encoder import UMT5Config, UMT5Encoder, position_buckets

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden/wan-tiny"
TINY = WanConfig(num_layers=2, num_attention_heads=2, attention_head_dim=16, ffn_dim=48, text_dim=24, freq_dim=32)


def rel_l2(ours, expected):
    return ((ours - expected).double().norm() / expected.double().norm()).item()


@pytest.fixture(scope="module")
def golden():
    transformer, text_encoder, tokenizer, _ = folder.read_folder(GOLDEN)
    return transformer, text_encoder, tokenizer, load_file(GOLDEN / "expected.safetensors")


@pytest.mark.parametrize("grid", ["partial", "full"])
@pytest.mark.parametrize("mode,topk", [("dense", None), ("topk2", 2)])
@torch.no_grad()
def test_golden_velocities(golden, grid, mode, topk):
    transformer, _, _, expected = golden
    inputs = (expected[f"{grid}.latent"], expected[f"{grid}.timestep"], expected["text.hidden"])
    # fp32 on another machine may sum in another order.
    assert rel_l2(transformer(*inputs, topk), expected[f"{grid}.velocity.{mode}"]) < 1e-5


@torch.no_grad()
def test_golden_text(golden):
    _, text_encoder, tokenizer, expected = golden
    ids = tokenizer.encode(["a small red star moving left"])
    assert torch.equal(ids.int(), expected["text.ids"])
    assert rel_l2(text_encoder(ids), expected["text.hidden"]) < 1e-5


def test_names_are_those_of_a_checkpoint():
    names = {name for name in WanTransformer(TINY).state_dict() if not name.startswith("blocks.1")}
    block = {f"attn{n}.{part}" for n in (1, 2) for part in ("norm_q.weight", "norm_k.weight")}
    linears = [f"attn{n}.{part}" for n in (1, 2) for part in ("to_q", "to_k", "to_v", "to_out.0")]
    linears += ["ffn.net.0.proj", "ffn.net.2", "to_gate_compress", "norm2"]
    block |= {f"{name}.{kind}" for name in linears for kind in ("weight", "bias")} | {"scale_shift_table"}
    outer = ["patch_embedding", "proj_out", "condition_embedder.time_proj"]
    outer += [f"condition_embedder.{e}_embedder.linear_{i}" for e in ("time", "text") for i in (1, 2)]
    expected = {f"{name}.{kind}" for name in outer for kind in ("weight", "bias")}
    assert names == expected | {"scale_shift_table"} | {f"blocks.0.{name}" for name in block}


def test_text_encoder_names():
    names = set(UMT5Encoder(UMT5Config(num_layers=1)).state_dict())
    block = [f"0.SelfAttention.{n}" for n in ("q", "k", "v", "o", "relative_attention_bias")]
    block += [f"1.DenseReluDense.{n}" for n in ("wi_0", "wi_1", "wo")] + ["0.layer_norm", "1.layer_norm"]
    expected = {f"encoder.block.0.layer.{n}.weight" for n in block}
    assert names == expected | {"shared.weight", "encoder.final_layer_norm.weight"}


def test_a_fresh_model_predicts_zero_and_has_no_coarse_branch():
    model = WanTransformer(TINY)
    initialise(model)
    assert all(not block.to_gate_compress.weight.any() for block in model.blocks)
    out = model(torch.randn(2, 3, 4, 16, 16), torch.tensor([1.0, 999.0]), torch.randn(2, 5, 24), 1)
    assert out.shape == (2, 3, 4, 16, 16) and not out.any()


def test_rows_of_padding_are_zero_and_change_nothing_else():
    torch.manual_seed(0)
    encoder = UMT5Encoder(UMT5Config(d_model=24, d_kv=8, num_heads=3, d_ff=40))
    short, padded = torch.tensor([[5, 6, 1]]), torch.tensor([[5, 6, 1, 0, 0]])
    out = encoder(padded)
    assert not out[:, 3:].any()
    torch.testing.assert_close(out[:, :3], encoder(short), rtol=0, atol=1e-5)


def test_position_buckets():
    buckets = position_buckets(200, 32, 128)
    assert buckets[50, 43:58].tolist() == [7, 6, 5, 4, 3, 2, 1, 0, 17, 18, 19, 20, 21, 22, 23]
    assert buckets[0, 199] == 31 and buckets[199, 0] == 15


def test_a_folder_comes_back_as_it_was(tmp_path, golden):
    transformer, text_encoder, tokenizer, _ = golden
    defaults = folder.Defaults(steps=7, guidance=1.5, sparsity=0.5)
    folder.write_folder(tmp_path, transformer, text_encoder, tokenizer, defaults, torch.float32, (SMALL, WIDE))
    again, text_again, _, defaults_again = folder.read_folder(tmp_path)
    assert again.config == transformer.config and defaults_again == defaults
    index = json.loads((tmp_path / "model_index.json").read_text())["vsa"]
    assert index["trained_videos"] == [[16, 64, 64], [16, 128, 128]]
    for ours, theirs in ((again, transformer), (text_again, text_encoder)):
        for name, tensor in theirs.state_dict().items():
            assert torch.equal(ours.state_dict()[name], tensor)
