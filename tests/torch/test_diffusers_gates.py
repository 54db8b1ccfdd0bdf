"""The gates of VSA checkpoints: found, counted, checked, and never lost without a word."""

import pytest
import torch

pytest.importorskip("diffusers")
from diffusers import WanTransformer3DModel  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from tiny_wan import LAYERS, gate_weights, run  # noqa: E402
from vsa_torch.diffusers import disable_vsa, enable_vsa  # noqa: E402


@pytest.mark.parametrize("prefix", ["", "attn1.", "self_attn."])
def test_R19_gates_in_every_naming_are_loaded_and_counted(model, prefix):
    report = enable_vsa(model, topk=2, gates=gate_weights(prefix))
    assert report.num_gates == LAYERS
    for n, block in enumerate(model.blocks):
        assert torch.equal(block.attn1.to_gate_compress.bias, gate_weights()[f"blocks.{n}.to_gate_compress.bias"])
    gated = run(model)
    enable_vsa(model, topk=2, gates=None)
    assert not torch.allclose(run(model), gated, atol=1e-3)


def test_gates_of_the_folder_it_came_from_are_found(model, tmp_path):
    pytest.importorskip("accelerate")  # from_pretrained of this model needs it
    model.save_pretrained(tmp_path)
    file = next(tmp_path.glob("*.safetensors"))
    save_file(load_file(file) | gate_weights(), file)
    loaded = WanTransformer3DModel.from_pretrained(tmp_path)
    assert enable_vsa(loaded, topk=2).num_gates == LAYERS
    assert enable_vsa(loaded, topk=2, gates=tmp_path).num_gates == LAYERS


def download(tmp_path, monkeypatch, model, folders):
    """A repository org/wan in the cache of downloads, with the model and its gates in every folder."""
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--wan"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("0" * 40)
    for folder in folders:
        place = repository / "snapshots" / ("0" * 40) / folder
        model.save_pretrained(place)
        file = next(place.glob("*.safetensors"))
        save_file(load_file(file) | gate_weights(), file)
    return WanTransformer3DModel.from_pretrained("org/wan", subfolder=folders[0], cache_dir=tmp_path,
                                                 local_files_only=True)


def test_R19_gates_of_a_download_are_found(model, tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    loaded = download(tmp_path, monkeypatch, model, ["transformer"])
    assert loaded.config._name_or_path == "org/wan"
    assert enable_vsa(loaded, topk=2).num_gates == LAYERS
    assert enable_vsa(loaded, topk=2, gates=None).num_gates == 0


def test_gates_of_two_transformers_in_one_download_are_not_guessed(model, tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    loaded = download(tmp_path, monkeypatch, model, ["transformer", "transformer_2"])
    del loaded._vsa_origin  # as if it had been loaded before vsa_torch.diffusers was imported
    with pytest.raises(ValueError, match="expected one checkpoint in org/wan, got .*transformer/.* and .*transformer_2"):
        enable_vsa(loaded, topk=2)


def test_a_download_that_is_gone_is_told(model, tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    loaded = download(tmp_path, monkeypatch, model, ["transformer"])
    (tmp_path / "models--org--wan").rename(tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="org/wan is neither a local folder nor in the cache of downloads"):
        assert enable_vsa(loaded, topk=2).num_gates == 0


def test_a_model_with_gates_is_not_made_dense_unasked(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    with pytest.raises(ValueError, match="drop_gates"):
        disable_vsa(model)
    disable_vsa(model, drop_gates=True)
    assert not any("to_gate_compress" in name for name in model.state_dict())


def test_T44_another_tile_than_trained_is_refused(model, tmp_path):
    save_file(gate_weights(), tmp_path / "gates.safetensors", metadata={"vsa.tile": "4,4,4"})
    with pytest.raises(ValueError, match="tile_shape: expected 4,4,4"):
        enable_vsa(model, topk=1, tile_shape=(4, 8, 4), gates=tmp_path)
    assert enable_vsa(model, topk=1, gates=tmp_path).num_gates == LAYERS
    with pytest.raises(ValueError, match="tile_shape: expected 4,4,4"):  # the gates that it has by now
        enable_vsa(model, topk=1, tile_shape=(4, 8, 4))


def test_files_of_gates_that_are_none_are_named(model, tmp_path):
    (tmp_path / "gates.safetensors").write_bytes(b"no safetensors")
    with pytest.raises(ValueError, match="gates: expected a safetensors file, got .*gates.safetensors"):
        enable_vsa(model, topk=1, gates=tmp_path)
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        enable_vsa(model, topk=1, gates=tmp_path / "elsewhere")
