"""Attached gates are the model's own modules, whatever trains, wraps, moves, packs or saves the model."""

import copy
import io

import pytest
import torch

pytest.importorskip("diffusers")
from diffusers import WanTransformer3DModel  # noqa: E402

from tiny_wan import LAYERS, gate_weights, inputs, run, same_output, transformer  # noqa: E402
from vsa_torch.diffusers import disable_vsa, enable_vsa  # noqa: E402


def gates_of(model):
    return [block.attn1.to_gate_compress for block in model.blocks]


def parameters_of(model):
    return [parameter for gate in gates_of(model) for parameter in gate.parameters()]


def group_offloaded(model, tmp_path=None, kind="leaf_level"):
    from diffusers.hooks import apply_group_offloading

    apply_group_offloading(model, torch.device("cpu"), torch.device("cpu"), kind, num_blocks_per_group=1,
                           offload_to_disk_path=None if tmp_path is None else str(tmp_path))
    return model


# --- enable_vsa again -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["leaf_level", "block_level"])
def test_p01_gates_of_a_model_offloaded_to_disk_are_not_read(model, tmp_path, kind):
    enable_vsa(model, topk=2, gates=gate_weights())
    want, gates = run(model), gates_of(model)
    group_offloaded(model, tmp_path, kind)
    assert same_output(run(model), want)
    for _ in range(2):
        enable_vsa(model, topk=2)
        assert same_output(run(model), want)
    assert all(a is b for a, b in zip(gates_of(model), gates))
    with pytest.raises(ValueError, match="gates: expected .*whose weights can be written, got .*offloaded to disk"):
        enable_vsa(model, topk=2, gates=gate_weights())
    assert same_output(run(model), want)


def test_p02_an_optimizer_goes_on_with_the_gates(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    optimizer, parameters = torch.optim.SGD(model.parameters(), lr=0.1), parameters_of(model)
    for again in (dict(sparsity=0.6), dict(sparsity=0.3, gates=gate_weights())):
        enable_vsa(model, **again)
        before = [parameter.detach().clone() for parameter in parameters]
        optimizer.zero_grad()
        model(**inputs())[0].square().sum().backward()
        optimizer.step()
        assert all(a is b for a, b in zip(parameters_of(model), parameters))
        assert not any(torch.equal(a, b) for a, b in zip(parameters, before))


def test_p03_frozen_gates_stay_frozen(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    model.requires_grad_(False)
    for gates in ("auto", gate_weights()):
        enable_vsa(model, topk=1, gates=gates)
        assert not any(parameter.requires_grad for parameter in model.parameters())
    disable_vsa(model, drop_gates=True)
    enable_vsa(model, topk=1, gates=gate_weights())  # and new ones are as the model is
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_p04_an_adapter_on_the_gates_is_kept(model):
    peft = pytest.importorskip("peft")
    enable_vsa(model, topk=2, gates=gate_weights())
    plain = run(model)
    model.add_adapter(peft.LoraConfig(r=2, target_modules=["to_q", "to_gate_compress"], init_lora_weights=False))
    want, gates = run(model), gates_of(model)
    assert not torch.equal(want, plain)
    report = enable_vsa(model, topk=3)
    assert report.num_gates == LAYERS and all(a is b for a, b in zip(gates_of(model), gates))
    run(model)
    assert report.rows[0].kept == 0.75
    enable_vsa(model, topk=2)
    assert torch.equal(run(model), want)
    with pytest.raises(ValueError, match="gates: expected .* linear layers .*, got a peft.tuners.lora.layer.Linear in layer 0"):
        enable_vsa(model, topk=2, gates=gate_weights())
    model.fuse_lora()
    enable_vsa(model, topk=2)
    torch.testing.assert_close(run(model), want)
    model.unload_lora()
    enable_vsa(model, topk=2)
    assert type(gates_of(model)[0]) is torch.nn.Linear


def test_p04_a_model_inside_peft(model):
    peft = pytest.importorskip("peft")
    enable_vsa(model, topk=2, gates=gate_weights())
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["to_gate_compress"]))
    gates = gates_of(model)
    assert enable_vsa(wrapped, topk=1).num_gates == LAYERS
    assert all(a is b for a, b in zip(gates_of(model), gates))


@pytest.mark.parametrize("wrap", ["parametrized", "subclass", "hook", "half", "spectral"])
def test_what_is_done_to_a_gate_stays(model, wrap):
    enable_vsa(model, topk=2, gates=gate_weights())
    calls = []
    for block in model.blocks:
        gate = block.attn1.to_gate_compress
        if wrap == "parametrized":
            torch.nn.utils.parametrize.register_parametrization(gate, "weight", torch.nn.Tanh())
        elif wrap == "subclass":
            block.attn1.to_gate_compress = torch.nn.Sequential(gate, torch.nn.Tanh())
        elif wrap == "hook":
            gate.register_forward_hook(lambda module, args, out: calls.append(module))
        elif wrap == "half":
            gate.double()
            gate.register_forward_pre_hook(lambda module, args: (args[0].double(),))
        else:
            torch.nn.utils.parametrizations.spectral_norm(gate)
    want, gates = run(model), gates_of(model)
    enable_vsa(model, topk=2)
    assert torch.equal(run(model), want) and all(a is b for a, b in zip(gates_of(model), gates))
    assert len(calls) == (2 * LAYERS if wrap == "hook" else 0)
    if wrap in ("parametrized", "subclass", "spectral"):
        with pytest.raises(ValueError, match="gates: expected .* in layer 0; leave gates out"):
            enable_vsa(model, topk=2, gates=gate_weights())
        assert torch.equal(run(model), want)


def test_given_gates_are_written_in_place(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    gates = gates_of(model)
    other = {name: -tensor for name, tensor in gate_weights().items()}
    enable_vsa(model, topk=2, gates=other)
    assert all(a is b for a, b in zip(gates_of(model), gates))
    assert torch.equal(gates[1].bias, other["blocks.1.to_gate_compress.bias"])
    fresh = transformer()
    enable_vsa(fresh, topk=2, gates=other)
    assert torch.equal(run(model), run(fresh))
    weights_alone = {name: tensor for name, tensor in other.items() if name.endswith("weight")}
    with pytest.raises(ValueError, match="got one with weight and bias, not weight in layer 0"):
        enable_vsa(model, topk=2, gates=weights_alone)


def test_gates_are_copies_of_what_was_given(model):
    """Two models with the gates of one dict must not train each other's."""
    given, other = gate_weights(), transformer()
    enable_vsa(model, topk=2, gates=given)
    enable_vsa(other, topk=2, gates=given)
    with torch.no_grad():
        for parameter in parameters_of(model):
            parameter.zero_()
    assert all(bool(tensor.any()) for tensor in given.values())
    assert all(bool(parameter.any()) for parameter in parameters_of(other))


def test_disabled_and_kept(model):
    dense = run(model)
    enable_vsa(model, topk=2, gates=gate_weights())
    want, gates = run(model), gates_of(model)
    disable_vsa(model, keep_gates=True)
    assert torch.equal(run(model), dense)
    enable_vsa(model, topk=2)
    assert torch.equal(run(model), want) and all(a is b for a, b in zip(gates_of(model), gates))
    with pytest.raises(ValueError, match="drop_gates: expected one of drop_gates and keep_gates, got both"):
        disable_vsa(model, drop_gates=True, keep_gates=True)


def test_gates_in_some_layers_of_the_model_are_an_error(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    del model.blocks[1].attn1.to_gate_compress
    with pytest.raises(ValueError, match="model: expected to_gate_compress in 3 layers or in none, got 2"):
        enable_vsa(model, topk=2)


def test_copies_have_gates_of_their_own(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    average = copy.deepcopy(model)
    for again in (average, model):
        enable_vsa(again, topk=1)
    assert not set(map(id, parameters_of(average))) & set(map(id, parameters_of(model)))
    state = io.BytesIO()
    torch.save(model.state_dict(), state)
    state.seek(0)
    average.load_state_dict(torch.load(state))
    assert torch.equal(run(average), run(model))


# --- saved and loaded ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tile_known", [True, False])
def test_p13_the_tile_is_saved_with_the_gates(model, tmp_path, tile_known):
    from safetensors.torch import save_file

    save_file(gate_weights(), tmp_path / "g.safetensors", metadata={"vsa.tile": "4,8,4"} if tile_known else None)
    enable_vsa(model, topk=1, tile_shape=(4, 8, 4), gates=tmp_path / "g.safetensors")
    want = run(model)
    model.save_pretrained(tmp_path / "saved")
    loaded = WanTransformer3DModel.from_pretrained(tmp_path / "saved")
    for other in (loaded, transformer()):
        source = "auto" if other is loaded else tmp_path / "saved"
        with pytest.raises(ValueError, match="tile_shape: expected 4,8,4, with which the gates were trained or saved"):
            enable_vsa(other, topk=1, gates=source)
        assert enable_vsa(other, topk=1, tile_shape=(4, 8, 4), gates=source).num_gates == LAYERS
    assert same_output(run(loaded), want)
    with pytest.raises(ValueError, match="tile_shape: expected 4,8,4"):
        enable_vsa(loaded, topk=1)
    loaded.save_pretrained(tmp_path / "again")
    again = WanTransformer3DModel.from_pretrained(tmp_path / "again")
    with pytest.raises(ValueError, match="tile_shape: expected 4,8,4"):
        enable_vsa(again, topk=1)
    enable_vsa(again, topk=1, gates=gate_weights())  # the user's word, as a state dict
    assert again.config["_vsa_tile"] == "4,4,4"


def test_p13_copies_and_configs_keep_the_tile(model, tmp_path):
    from safetensors.torch import save_file

    save_file(gate_weights(), tmp_path / "g.safetensors", metadata={"vsa.tile": "4,8,4"})
    enable_vsa(model, topk=1, tile_shape=(4, 8, 4), gates=tmp_path)
    with pytest.raises(ValueError, match="tile_shape: expected 4,8,4"):
        enable_vsa(copy.deepcopy(model), topk=1)
    disable_vsa(model, drop_gates=True)
    enable_vsa(model, topk=1)
    model.save_pretrained(tmp_path / "without")
    assert not WanTransformer3DModel.from_pretrained(tmp_path / "without").config.get("_vsa_tile")


@pytest.mark.parametrize("options", [dict(), dict(max_shard_size="20KB"), dict(variant="ema"),
                                     dict(safe_serialization=False), dict(max_shard_size="20KB", variant="ema")])
def test_a_saved_model_comes_back_with_its_gates(model, tmp_path, options):
    enable_vsa(model, topk=1, gates=gate_weights())
    want = run(model)
    model.save_pretrained(tmp_path, **options)
    loaded = WanTransformer3DModel.from_pretrained(tmp_path, variant=options.get("variant"))
    assert enable_vsa(loaded, topk=1).num_gates == LAYERS
    assert same_output(run(loaded), want)
