"""Training of diffusers' Wan transformer: resumption to the bit, schedule, arms, FLOPs, export."""
import dataclasses
import json
import math
import types

import pytest
import torch

pytest.importorskip("diffusers")
pytest.importorskip("vsa_torch")
from training import folder  # noqa: E402
from training.dit import flops, model_folder, videos  # noqa: E402
from training.dit.networks import config_of  # noqa: E402
from training.dit.settings import Settings  # noqa: E402
from training.dit.trainer import Trainer  # noqa: E402
from training.tests.dit_support import ROOT, TINY, TOKENIZER, losses, trainer  # noqa: E402
from training.workers import Workers  # noqa: E402


def assert_same_weights(ours, theirs):
    for (name, a), (_, b) in zip(ours.weights().items(), theirs.weights().items(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("attention", ["dense", "vsa"])
def test_a_resumed_run_takes_the_same_steps(tmp_path, attention):
    change = dict(attention=attention, dense_steps=2, decay_steps=4)
    straight, first, second = (trainer(**change) for _ in range(3))
    expected = losses(straight, 6)
    losses(first, 3)
    first.save(tmp_path / "checkpoint.pt")
    second.load(tmp_path / "checkpoint.pt")
    assert losses(second, 3) == expected[3:]
    assert_same_weights(second, straight)
    assert second.evaluate(2, 0.5) == straight.evaluate(2, 0.5)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_other_settings_do_not_resume(tmp_path):
    trainer(seed=1).save(tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match=r"other settings: seed 1 \(now 2\)$"):
        trainer(seed=2).load(tmp_path / "checkpoint.pt")
    other = trainer(seed=1)
    other.videos.name = "3 videos"
    with pytest.raises(ValueError, match=r"other settings: data procedural clips \(now 3 videos\)$"):
        other.load(tmp_path / "checkpoint.pt")


def test_other_weights_to_begin_with_do_not_resume(tmp_path):
    begun = trainer()
    begun.begun_with = "0123"
    begun.save(tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match=r"other settings: weights 0123 \(now None\)$"):
        trainer().load(tmp_path / "checkpoint.pt")
    begun.load(tmp_path / "checkpoint.pt")
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    del state["weights"]  # as checkpoints were
    torch.save(state, tmp_path / "checkpoint.pt")
    trainer().load(tmp_path / "checkpoint.pt")


@pytest.mark.parametrize("target, levels", [(0.9, 9), (0.6, 3), (0.7, 7), (0.875, 4), (0.3, 3), (0.95, 19)])
def test_T06_the_sparsity_reaches_its_target_exactly(target, levels):
    settings = dataclasses.replace(TINY, sparsity=target, steps=200, dense_steps=10, decay_steps=100,
                                   decay_levels=levels)
    values = [settings.sparsity_at(step) for step in range(200)]
    assert values[:10] == [0.0] * 10 and values[110:] == [target] * 90
    assert values == sorted(values) and len(set(values)) == levels + 1
    assert dataclasses.replace(settings, dense_steps=0, decay_steps=0).sparsity_at(0) == target
    assert dataclasses.replace(settings, attention="dense").sparsity_at(199) == 0.0


@pytest.mark.parametrize("change, message", [
    (dict(dense_steps=6, decay_steps=6), "reaches 0.75"), (dict(sparsity=1.0), "below 1"),
    (dict(patch=(3, 2, 2)), "divide"), (dict(attention="sparse"), "dense or vsa"), (dict(size="huge"), "size"),
    (dict(decay_levels=0), "1 level"), (dict(steps=0), "steps: expected at least 1"), (dict(seed=-1), "seed: expected"),
    (dict(batch=0), "batch: expected"), (dict(patch=(0, 8, 8)), "patch: expected three edges"),
    (dict(caption_dropout=10.0), "caption_dropout: expected a share")])
def test_settings_that_make_no_sense_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **change)


def test_arms_differ_in_attention_alone():
    dense, sparse = trainer(attention="dense"), trainer(attention="vsa")
    theirs = sparse.weights()
    gates = {name for name in theirs if "to_gate_compress" in name}
    assert len(gates) == 2 * 2 and not any(theirs[name].any() for name in gates)
    ours = dense.weights()
    assert set(ours) == set(theirs) - gates
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for a, b in zip(dense.batch(3), sparse.batch(3)):
        assert torch.equal(a, b)


def test_vsa_with_all_tiles_and_gates_at_zero_is_dense_attention():
    dense, sparse = trainer(attention="dense"), trainer(attention="vsa", sparsity=0.0)
    for trained in (dense, sparse):
        trained.networks.sparsity = 0.0
        torch.manual_seed(0)
        torch.nn.init.normal_(trained.networks.transformer.proj_out.weight)  # zero hides what attention gives
    a, b = (t.networks(*(x for i, x in enumerate(t.batch(0)) if i != 2)) for t in (dense, sparse))
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert a.abs().max() > 0.1


def test_the_loss_falls_and_the_gates_learn():
    trained = trainer(steps=40, learning_rate=3e-3)
    before = trained.evaluate(2, 0.75)
    losses(trained, 40)
    # A patch of 768 values has little room in 32 channels, so most of the noise stays.
    assert trained.evaluate(2, 0.75) < 0.9 * before
    assert all(p.any() for name, p in trained.weights().items() if "to_gate_compress.weight" in name)


def test_micro_batches_are_the_batch():
    whole, parts = trainer(batch=4), trainer(batch=4, micro_batch=2)
    torch.testing.assert_close(losses(whole, 2), losses(parts, 2))


def test_recomputation_changes_nothing():
    plain = trainer()
    again = Trainer(TINY, TOKENIZER, videos.Procedural(TINY), Workers("cpu"), recompute=True)
    assert losses(plain, 3) == losses(again, 3)
    assert_same_weights(plain, again)


def test_flops_are_those_that_pytorch_counts():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    trained = trainer(attention="dense")
    counted = flops.per_level(trained.settings, trained.networks)[0.0]
    inputs = torch.zeros(1, 3, 16, 64, 64), torch.zeros(1), torch.zeros(1, trained.networks.text_length, 16)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        trained.networks.transformer(*inputs)
    assert counted.total == counter.get_total_flops()
    assert counted.attention == 4 * 256**2 * 32 * 2 and counted.gates == 0


def test_flops_of_vsa_by_level_of_sparsity():
    trained = trainer(dense_steps=2, decay_steps=4, decay_levels=2)
    levels = flops.per_level(trained.settings, trained.networks)
    dense, coarse = 4 * 256**2 * 32 * 2, 4 * 4 * 4 * 32 * 2
    # 4 tiles: at 0.375 three are kept, ceil(2.5).
    assert {level: f.attention for level, f in levels.items()} == {
        0.0: dense + coarse, 0.375: 0.75 * dense + coarse, 0.75: 0.25 * dense + coarse}
    assert levels[0.0].gates == 2 * 32 * 32 * 256 * 2
    total = 3 * 2 * (2 * levels[0.0].attention + 2 * levels[0.0].attention + levels[0.375].attention)
    assert flops.so_far(trained.settings, levels, 5, "attention") == total


def test_the_shipped_model_in_diffusers_is_the_one_that_was_trained():
    """Its gates are found in the folder, and enable_vsa computes what training/model.py does."""
    pytest.importorskip("accelerate")  # from_pretrained of this model needs it
    from diffusers import WanTransformer3DModel
    from vsa_torch.diffusers import enable_vsa

    ours, text_encoder, tokenizer, _ = folder.read_folder(ROOT / "models/wan-toy")
    theirs = WanTransformer3DModel.from_pretrained(ROOT / "models/wan-toy/transformer")
    assert enable_vsa(theirs, sparsity=0.75).num_gates == ours.config.num_layers
    noisy = torch.randn(1, 3, 16, 64, 64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        text, timestep = text_encoder(tokenizer.encode(["a red circle moving right"])), torch.tensor([700.0])
        want = ours(noisy, timestep, text, topk=8)
        torch.testing.assert_close(theirs(noisy, timestep, text, return_dict=False)[0], want, rtol=1e-4, atol=1e-4)
    assert want.abs().max() > 1


@pytest.mark.parametrize("attention", ["dense", "vsa"])
def test_an_exported_model_is_the_trained_one(tmp_path, attention):
    trained = trainer(attention=attention, dense_steps=1, decay_steps=2)
    losses(trained, 6)
    model_folder.write(trained, tmp_path / "model", torch.float32)
    transformer, text_encoder, tokenizer, defaults = folder.read_folder(tmp_path / "model")
    assert defaults.sparsity == (0.75 if attention == "vsa" else 0.0)
    ids, pixels, _, sigma = trained.batch(9)
    trained.networks.sparsity = defaults.sparsity
    with torch.no_grad():
        got = transformer(pixels, 1000 * sigma, text_encoder(ids), topk=1 if attention == "vsa" else None)
        want = trained.networks(ids, pixels, sigma)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert want.abs().max() > 1e-3  # the output projection begins at zero


@pytest.mark.parametrize("attention", ["dense", "vsa"])
def test_training_begins_with_the_weights_of_a_folder(tmp_path, attention):
    trained = trainer(seed=5, attention=attention)
    losses(trained, 6)
    model_folder.write(trained, tmp_path / "model", torch.float32)
    begun = trainer(attention=attention)
    begun.set_weights(model_folder.read(begun.settings, TOKENIZER, tmp_path / "model"))
    assert_same_weights(begun, trained)


def test_dense_training_takes_no_gates_that_have_learned(tmp_path):
    """It would drop them; those of a dense run are zero."""
    trained, dense = trainer(), dataclasses.replace(TINY, attention="dense")
    losses(trained, 6)
    model_folder.write(trained, tmp_path / "vsa", torch.float32)
    with pytest.raises(ValueError, match=r"a folder without gates for --attention dense, got gates that are not zero "
                                         r"in .*/vsa; --attention vsa --sparsity 0 keeps"):
        model_folder.read(dense, TOKENIZER, tmp_path / "vsa")
    model_folder.write(trainer(attention="dense"), tmp_path / "dense", torch.float32)
    gates = {name: weight for name, weight in model_folder.read(TINY, TOKENIZER, tmp_path / "dense").items()
             if "to_gate" in name}
    assert len(gates) == 4 and not any(weight.any() for weight in gates.values())
    assert not any("to_gate" in name for name in model_folder.read(dense, TOKENIZER, tmp_path / "dense"))


def test_a_folder_of_another_model_is_refused(tmp_path):
    model_folder.write(trainer(), tmp_path / "model")
    with pytest.raises(ValueError, match=r"weights: expected a transformer like that of this run, got patch_size "
                                         r"\(4, 8, 8\), not \(2, 8, 8\); tile_shape \(4, 4, 4\), not \(2, 4, 4\) in "):
        model_folder.read(dataclasses.replace(TINY, patch=(2, 8, 8), tile_shape=(2, 4, 4)), TOKENIZER,
                          tmp_path / "model")
    other = types.SimpleNamespace(model=b"another", vocab_size=TOKENIZER.vocab_size)
    with pytest.raises(ValueError, match="weights: expected the tokenizer of --tokenizer, got another one"):
        model_folder.read(TINY, other, tmp_path / "model")
    other.vocab_size += 1
    with pytest.raises(ValueError, match=r"expected a text encoder like that of this run, got vocab_size 89, not 90 in"):
        model_folder.read(TINY, other, tmp_path / "model")
    index = tmp_path / "model/model_index.json"
    index.write_text(json.dumps({name: value for name, value in json.loads(index.read_text()).items() if name != "vsa"}))
    with pytest.raises(ValueError, match="expected a folder as --export makes it, got .*, whose model_index.json has no"):
        model_folder.read(TINY, TOKENIZER, tmp_path / "model")
    (tmp_path / "model/text_encoder/model.safetensors").unlink()
    with pytest.raises(ValueError, match="expected a folder with text_encoder/model.safetensors, got "):
        model_folder.read(TINY, TOKENIZER, tmp_path / "model")


def test_the_shipped_model_is_of_size_toy():
    """What training/README.md trains it with."""
    shipped = folder.read_folder(ROOT / "models/wan-toy")[0].config
    assert config_of(Settings(size="toy", patch=(2, 4, 4))) == shipped


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("attention, compiled", [("dense", False), ("vsa", False), ("vsa", True)])
def test_on_a_gpu_in_bfloat16(tmp_path, attention, compiled):
    """Weights stay fp32, and a resumed run follows the straight one: to rounding, as PyTorch's own attention to the
    text adds gradients in no fixed order."""
    if attention == "vsa" and not torch.ops.vsa.implements("cuda", "attention_backward"):
        pytest.skip("no backward of video_sparse_attention on CUDA")
    settings = dataclasses.replace(TINY, size="10m", patch=(2, 4, 4), attention=attention)
    straight, first, second = (Trainer(settings, TOKENIZER, videos.Procedural(settings), Workers("cuda"),
                                       compiled=compiled) for _ in range(3))
    expected = losses(straight, 6)
    losses(first, 3)
    first.save(tmp_path / "checkpoint.pt")
    second.load(tmp_path / "checkpoint.pt")
    assert losses(second, 3) == pytest.approx(expected[3:], rel=1e-2)
    assert expected[-1] < expected[0] and math.isfinite(second.evaluate(2, 0.5))
    assert all(p.dtype == torch.float32 for p in second.weights().values())
