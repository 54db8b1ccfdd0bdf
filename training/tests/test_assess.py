"""The judgement of all formats at once, with weights of no worth."""
import json
import sys

from PIL import Image

from training import assess, folder
from training.model import WanConfig, WanTransformer, initialise
from training.text_encoder import UMT5Config, UMT5Encoder
from training.tests.test_trainer import TOKENIZER


def test_what_is_written(tmp_path, monkeypatch):
    config = WanConfig(num_layers=1, num_attention_heads=1, attention_head_dim=16, ffn_dim=16, text_dim=16, freq_dim=16)
    umt5 = UMT5Config(vocab_size=TOKENIZER.vocab_size, d_model=16, num_heads=2, d_kv=8, d_ff=16, num_layers=1)
    transformer = WanTransformer(config)
    initialise(transformer)
    defaults = folder.Defaults(steps=1, guidance=1.0)
    folder.write_folder(tmp_path / "model", transformer, UMT5Encoder(umt5), TOKENIZER, defaults)
    command = ["assess", "--model", str(tmp_path / "model"), "--out", str(tmp_path / "out"), "--device", "cpu",
               "--no-compile", "--count", "3", "--tokens", "8192", "--loss-tokens", "8192",
               "--formats", "16x64x64,16x128x128"]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(assess, "LEVELS", 2)
    assess.main()
    found = json.loads((tmp_path / "out/assessment.json").read_text())
    assert set(found) == {"16x64x64", "16x128x128"}
    for of_format in found.values():
        assert set(of_format["judged"]) == {"0.0", "0.75", "0.875", "0.9"}
        assert all(shares["total"]["clips"] == 3 and shares["total"]["all"] == 0 for shares in of_format["judged"].values())
        assert of_format["denoising"]["over_dense"]["0.0"] == 1 and len(of_format["wrong"]) == 12
    assert Image.open(tmp_path / "out/16x128x128-0.75.png").size == (3 * 4 * 128, 128)
