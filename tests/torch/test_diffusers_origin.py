"""Gates come from exactly what diffusers loaded; what was not found is said."""

import json

import pytest
import torch

pytest.importorskip("diffusers")
pytest.importorskip("accelerate")
from diffusers import WanTransformer3DModel  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from tiny_wan import LAYERS, gate_weights, pipeline, run, transformer  # noqa: E402
from vsa_torch.diffusers import enable_vsa  # noqa: E402


def gates(factor=1.0, prefix="", **change):
    return {name: factor * tensor for name, tensor in gate_weights(prefix).items()}


def add(files, tensors):
    """Adds tensors to saved files, spread over them; an index names them too."""
    files = sorted(files)
    for n, file in enumerate(files):
        part = dict(list(tensors.items())[n::len(files)])
        if file.suffix == ".bin":
            torch.save(torch.load(file) | part, file)
        else:
            save_file(load_file(file) | part, file, metadata={"format": "pt"})
        for index in file.parent.glob("*.index.*json"):
            if ".ema." not in index.name or ".ema" in file.name:
                content = json.loads(index.read_text())
                if file.name in content["weight_map"].values():
                    content["weight_map"] |= {name: file.name for name in part}
                    index.write_text(json.dumps(content))


def bias(model):
    return model.blocks[1].attn1.to_gate_compress.bias


def expected(factor=1.0):
    return gates(factor)["blocks.1.to_gate_compress.bias"]


def with_variants(folder, **options):
    """A folder with the weights, gates times 1, and those of the variant ema, gates times 2."""
    model = transformer()
    for variant, factor in ((None, 1.0), ("ema", 2.0)):
        before = set(folder.glob("*"))
        model.save_pretrained(folder, variant=variant, **options)
        add([file for file in set(folder.glob("*")) - before if file.suffix in (".safetensors", ".bin")],
            gates(factor))


@pytest.mark.parametrize("options", [dict(), dict(max_shard_size="20KB"), dict(safe_serialization=False)])
@pytest.mark.parametrize("variant, factor", [("ema", 2.0), (None, 1.0)])
def test_p11_gates_of_the_variant_that_was_loaded(tmp_path, options, variant, factor):
    with_variants(tmp_path, **options)
    loaded = WanTransformer3DModel.from_pretrained(tmp_path, variant=variant)
    assert enable_vsa(loaded, topk=2).num_gates == LAYERS
    assert torch.equal(bias(loaded), expected(factor))


@pytest.mark.parametrize("gates_in", [None, "ema"])
def test_p11_a_variant_without_gates_has_none(tmp_path, gates_in):
    with_variants(tmp_path)
    for file in tmp_path.glob("*.safetensors"):
        if ("ema" in file.name) != (gates_in == "ema"):
            save_file({name: t for name, t in load_file(file).items() if "gate" not in name}, file)
    loaded = WanTransformer3DModel.from_pretrained(tmp_path, variant=None if gates_in else "ema")
    assert enable_vsa(loaded, topk=2).num_gates == 0


def test_p11_pickled_weights_beside_others(tmp_path):
    model = transformer()
    model.save_pretrained(tmp_path)
    add(tmp_path.glob("*.safetensors"), gates(1.0))
    model.save_pretrained(tmp_path, safe_serialization=False)
    add(tmp_path.glob("*.bin"), gates(2.0))
    for use_safetensors, factor in ((True, 1.0), (False, 2.0), (None, 1.0)):
        loaded = WanTransformer3DModel.from_pretrained(tmp_path, use_safetensors=use_safetensors)
        enable_vsa(loaded, topk=2)
        assert torch.equal(bias(loaded), expected(factor))


def test_p11_subfolders_and_pipelines(tmp_path):
    models = [transformer(), transformer()]
    pipe = pipeline(*models, boundary_ratio=0.9)
    pipe.save_pretrained(tmp_path)
    for folder, factor in (("transformer", 1.0), ("transformer_2", 2.0)):
        add((tmp_path / folder).glob("*.safetensors"), gates(factor))
        loaded = WanTransformer3DModel.from_pretrained(tmp_path, subfolder=folder)
        enable_vsa(loaded, topk=2)
        assert torch.equal(bias(loaded), expected(factor))
    loaded = type(pipe).from_pretrained(tmp_path, vae=None, text_encoder=None, tokenizer=None)
    assert enable_vsa(loaded, topk=2).num_gates == 2 * LAYERS
    assert torch.equal(bias(loaded.transformer), expected(1.0))
    assert torch.equal(bias(loaded.transformer_2), expected(2.0))


def test_p11_a_revision_of_a_download_in_another_cache(tmp_path):
    repository = tmp_path / "models--org--wan"
    (repository / "refs").mkdir(parents=True)
    for revision, sha, factor in (("main", "0" * 40, 1.0), ("tuned", "1" * 40, 2.0)):
        (repository / "refs" / revision).write_text(sha)
        place = repository / "snapshots" / sha / "transformer"
        transformer().save_pretrained(place)
        add(place.glob("*.safetensors"), gates(factor))
    for revision, factor in (("tuned", 2.0), ("main", 1.0), (None, 1.0)):
        loaded = WanTransformer3DModel.from_pretrained("org/wan", subfolder="transformer", cache_dir=tmp_path,
                                                       local_files_only=True, revision=revision)
        enable_vsa(loaded, topk=2)
        assert torch.equal(bias(loaded), expected(factor))


def test_p11_a_gate_twice_is_an_error(model, tmp_path):
    with_variants(tmp_path)
    with pytest.raises(ValueError, match=r"gates: expected one \w+ of to_gate_compress in layer 0, got two: .* in "
                                         r"diffusion_pytorch_model.ema.safetensors and .*; name the file"):
        enable_vsa(model, topk=2, gates=tmp_path)
    file = tmp_path / "diffusion_pytorch_model.safetensors"
    add([file], gates(1.0, "attn1."))
    loaded = WanTransformer3DModel.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="gates: expected one .* got two"):
        enable_vsa(loaded, topk=2)


def test_p11_shards_are_given_by_their_index(model, tmp_path):
    with_variants(tmp_path, max_shard_size="20KB")
    for index, factor in (("safetensors.index.json", 1.0), ("safetensors.index.ema.json", 2.0)):
        enable_vsa(model, topk=2, gates=tmp_path / f"diffusion_pytorch_model.{index}")
        assert torch.equal(bias(model), expected(factor))


def forget(model):
    """As if it had been loaded before vsa_torch.diffusers was imported."""
    del model._vsa_origin
    return model


def test_p11_a_model_that_was_loaded_before_is_not_guessed(tmp_path):
    with_variants(tmp_path)
    loaded = forget(WanTransformer3DModel.from_pretrained(tmp_path, variant="ema"))
    with pytest.raises(ValueError, match="gates: expected one checkpoint in .*, got .*diffusion_pytorch_model.* and "
                                         ".*diffusion_pytorch_model.*; import vsa_torch.diffusers before"):
        enable_vsa(loaded, topk=2)
    for file in tmp_path.glob("*model.safetensors"):
        file.unlink()
    enable_vsa(loaded, topk=2)
    assert torch.equal(bias(loaded), expected(2.0))


def test_p11_a_sharded_model_that_was_loaded_before(tmp_path):
    transformer().save_pretrained(tmp_path / "transformer", max_shard_size="20KB")
    add((tmp_path / "transformer").glob("*.safetensors"), gates(2.0))
    assert len(list((tmp_path / "transformer").glob("*.safetensors"))) > 2
    loaded = forget(WanTransformer3DModel.from_pretrained(tmp_path, subfolder="transformer"))
    enable_vsa(loaded, topk=2)
    assert torch.equal(bias(loaded), expected(2.0))


def test_p11_a_file_that_was_written_again_since_is_not_taken(tmp_path):
    transformer().save_pretrained(tmp_path)
    file = tmp_path / "diffusion_pytorch_model.safetensors"
    add([file], gates(1.0))
    loaded = WanTransformer3DModel.from_pretrained(tmp_path)
    add([file], gates(2.0))
    with pytest.raises(ValueError, match="gates: expected the file that the model was loaded from, got another one since: "
                                         ".*model.safetensors; pass gates="):
        enable_vsa(loaded, topk=2)
    enable_vsa(loaded, topk=2, gates=file)
    assert torch.equal(bias(loaded), expected(2.0))


def test_p11_a_model_without_gates_may_be_saved_where_it_came_from(tmp_path):
    transformer().save_pretrained(tmp_path)
    loaded = WanTransformer3DModel.from_pretrained(tmp_path)
    assert enable_vsa(loaded, topk=2).num_gates == 0
    loaded.save_pretrained(tmp_path)
    assert enable_vsa(loaded, topk=1).num_gates == 0


def test_p11_gates_that_were_lost_in_between_are_said(tmp_path):
    model = transformer()
    enable_vsa(model, topk=2, gates=gates(1.0))
    model.save_pretrained(tmp_path / "with")
    WanTransformer3DModel.from_pretrained(tmp_path / "with").save_pretrained(tmp_path / "without")
    loaded = WanTransformer3DModel.from_pretrained(tmp_path / "without")
    with pytest.warns(UserWarning, match="gates: the model's config says that it was saved with gates, but there are none in "
                                         ".*without/diffusion_pytorch_model.safetensors; pass gates="):
        assert enable_vsa(loaded, topk=2).num_gates == 0


def test_p11_a_model_of_a_config_alone_gets_no_gates_of_the_folder(tmp_path):
    transformer().save_pretrained(tmp_path)
    add(tmp_path.glob("*.safetensors"), gates(1.0))
    config = WanTransformer3DModel.from_pretrained(tmp_path).config
    made = WanTransformer3DModel.from_config(config)
    with pytest.warns(UserWarning, match="gates: the model was made from the config of .*, and not loaded from there, so it "
                                         "was not searched"):
        assert enable_vsa(made, topk=2).num_gates == 0


def test_files_that_macos_leaves_are_none(model, tmp_path):
    save_file(gate_weights(), tmp_path / "gates.safetensors")
    (tmp_path / "._gates.safetensors").write_bytes(b"\0\5\26\7")
    assert enable_vsa(model, topk=2, gates=tmp_path).num_gates == LAYERS


# --- single files -----------------------------------------------------------------------------------------

# Wan's own names, which from_single_file turns into diffusers'.
WAN = [("condition_embedder.time_embedder.linear_1", "time_embedding.0"),
       ("condition_embedder.time_embedder.linear_2", "time_embedding.2"),
       ("condition_embedder.text_embedder.linear_1", "text_embedding.0"),
       ("condition_embedder.text_embedder.linear_2", "text_embedding.2"),
       ("condition_embedder.time_proj", "time_projection.1"), ("attn1", "self_attn"), ("attn2", "cross_attn"),
       (".to_out.0.", ".o."), (".to_q.", ".q."), (".to_k.", ".k."), (".to_v.", ".v."), ("proj_out", "head.head"),
       ("ffn.net.0.proj", "ffn.0"), ("ffn.net.2", "ffn.2"), (".norm2.", ".norm3.")]


def wan_file(file, factor=1.0, prefix="", form="self_attn."):
    """A single file in Wan's names, with gates, and the folder of its config."""
    model, tensors = transformer(), {}
    model.save_config(file.parent / "config")
    for name, tensor in model.state_dict().items():
        for ours, theirs in WAN:
            name = name.replace(ours, theirs)
        if name == "scale_shift_table":
            name = "head.modulation"
        tensors[prefix + name.replace("scale_shift_table", "modulation")] = tensor.clone()
    tensors |= {prefix + name: tensor for name, tensor in gates(factor, form).items()}
    if file.suffix == ".safetensors":
        save_file(tensors, file, metadata={"vsa.tile": "4,4,4"})
    else:
        torch.save(tensors, file)
    return str(file), dict(config=str(file.parent / "config"), tensors=tensors)


@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
@pytest.mark.parametrize("name", ["wan.safetensors", "wan.pth"])
@pytest.mark.parametrize("form", ["self_attn.", ""])
def test_p12_a_single_file_in_wans_names(tmp_path, prefix, name, form):
    file, options = wan_file(tmp_path / name, 2.0, prefix, form)
    loaded = WanTransformer3DModel.from_single_file(file, config=options["config"])
    assert torch.equal(loaded.blocks[0].attn1.to_q.weight, transformer().blocks[0].attn1.to_q.weight)
    assert enable_vsa(loaded, topk=2).num_gates == LAYERS
    assert torch.equal(bias(loaded), expected(2.0))
    if file.endswith("safetensors"):
        with pytest.raises(ValueError, match="tile_shape: expected 4,4,4"):
            enable_vsa(loaded, topk=2, tile_shape=(4, 8, 4))


@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
def test_p12_a_state_dict(tmp_path, prefix):
    _, options = wan_file(tmp_path / "wan.safetensors", 2.0, prefix)
    loaded = WanTransformer3DModel.from_single_file(dict(options["tensors"]), config=options["config"])
    assert enable_vsa(loaded, topk=2).num_gates == LAYERS
    assert torch.equal(bias(loaded), expected(2.0))


def test_p12_gates_of_a_single_file_are_given_by_its_path(model, tmp_path):
    for name in ("wan.safetensors", "wan.pth"):
        file, _ = wan_file(tmp_path / name, 2.0, "model.diffusion_model.")
        assert enable_vsa(model, topk=2, gates=file).num_gates == LAYERS
        assert torch.equal(bias(model), expected(2.0))


def test_p12_a_download_by_address(tmp_path):
    repository = tmp_path / "hub/models--org--wan"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("0" * 40)
    place = repository / "snapshots" / ("0" * 40)
    place.mkdir(parents=True)
    _, options = wan_file(place / "wan.safetensors", 2.0)
    address = "https://huggingface.co/org/wan/blob/main/wan.safetensors"
    loaded = WanTransformer3DModel.from_single_file(address, config=options["config"], local_files_only=True,
                                                    cache_dir=str(tmp_path / "hub"))
    assert enable_vsa(loaded, topk=2).num_gates == LAYERS
    (place / "wan.safetensors").rename(place / "moved.safetensors")
    again = WanTransformer3DModel.from_config(loaded.config)
    again._vsa_origin = loaded._vsa_origin
    with pytest.warns(UserWarning, match="wan.safetensors .*so it was not searched for to_gate_compress; pass gates="):
        assert enable_vsa(again, topk=2).num_gates == 0


def test_p12_a_single_file_that_was_loaded_before_is_told(tmp_path):
    file, options = wan_file(tmp_path / "wan.safetensors")
    loaded = forget(WanTransformer3DModel.from_single_file(file, config=options["config"]))
    with pytest.warns(UserWarning, match="gates: where the model was loaded from is not known"):
        assert enable_vsa(loaded, topk=2).num_gates == 0


def test_p12_gguf(model, tmp_path):
    gguf = pytest.importorskip("gguf")
    from diffusers import GGUFQuantizationConfig

    _, options = wan_file(tmp_path / "wan.safetensors", 2.0)
    writer = gguf.GGUFWriter(tmp_path / "wan.gguf", "wan")
    for name, tensor in options["tensors"].items():
        array, packs = tensor.numpy(), tensor.shape[-1] % 32 == 0 and tensor.ndim == 2 and "blocks" in name
        if packs:
            writer.add_tensor(name, gguf.quants.quantize(array, gguf.GGMLQuantizationType.Q8_0),
                              raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    loaded = WanTransformer3DModel.from_single_file(
        str(tmp_path / "wan.gguf"), config=options["config"], torch_dtype=torch.bfloat16,
        quantization_config=GGUFQuantizationConfig(compute_dtype=torch.bfloat16))
    assert loaded.blocks[0].attn1.to_q.weight.dtype == torch.uint8
    assert enable_vsa(loaded, topk=2).num_gates == LAYERS
    assert bias(loaded).dtype == torch.bfloat16
    weight = loaded.blocks[1].attn1.to_gate_compress.weight
    torch.testing.assert_close(weight.float(), gates(2.0)["blocks.1.to_gate_compress.weight"], atol=0.02, rtol=0.02)
    assert run(loaded, dtype=torch.bfloat16).isfinite().all()


def test_a_model_that_was_made_here_has_no_origin_and_no_warning(model, recwarn):
    assert enable_vsa(model, topk=2).num_gates == 0
    assert not [warning for warning in recwarn if "enable_vsa" in str(warning.message)]


def test_gates_that_are_no_floats_are_an_error(model):
    sparse = {name: tensor.to_sparse() for name, tensor in gate_weights().items()}
    with pytest.raises(ValueError, match="gates: expected blocks.0.* as a tensor by strides, got torch.sparse_coo"):
        enable_vsa(model, topk=2, gates=sparse)
    packed = {name: tensor.to(torch.int8) for name, tensor in gate_weights().items()}
    with pytest.raises(ValueError, match="gates: expected blocks.0.* in floating point, got torch.int8"):
        enable_vsa(model, topk=2, gates=packed)


@pytest.mark.parametrize("part", ["scale_weight", "weight.absmax", "lora_A.default.weight", "base_layer.weight"])
def test_what_is_more_than_a_gate_is_not_ignored(model, part):
    more = gate_weights() | {f"blocks.1.attn1.to_gate_compress.{part}": torch.ones(1)}
    with pytest.raises(ValueError, match=f"gates: expected weight and bias .* alone, got blocks.1.*{part}"):
        enable_vsa(model, topk=2, gates=more)


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_fsdp_wrapped_module.", "transformer.",
                                    "model.diffusion_model.", "module._orig_mod."])
def test_names_of_wrappers_are_left_out(model, prefix):
    wrapped = {prefix + name.replace("blocks.0.", "blocks.0._checkpoint_wrapped_module."): tensor
               for name, tensor in gate_weights("attn1.").items()}
    assert enable_vsa(model, topk=2, gates=wrapped).num_gates == LAYERS
    with pytest.raises(ValueError, match="gates: expected one weight .* got two"):
        enable_vsa(model, topk=2, gates=wrapped | gate_weights())


def test_an_index_that_is_none_is_named(model, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="gates: expected an index of files with weights, got .*config.json"):
        enable_vsa(model, topk=2, gates=tmp_path / "config.json")


def test_loading_by_auto_model(tmp_path):
    from diffusers import AutoModel

    with_variants(tmp_path)
    loaded = AutoModel.from_pretrained(str(tmp_path), variant="ema")
    enable_vsa(loaded, topk=2)
    assert torch.equal(bias(loaded), expected(2.0))
