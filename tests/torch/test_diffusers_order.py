"""enable_vsa with the tokens of the model in the order of a curve."""

import pytest
import torch

pytest.importorskip("diffusers")
from tiny_wan import GRID, gate_weights, inputs, run, same_output  # noqa: E402

import vsa_torch  # noqa: E402
from vsa_torch.diffusers import disable_vsa, enable_vsa  # noqa: E402

ORDERS = ("gilbert", "gilbert-frames")


@pytest.mark.parametrize("order", ORDERS)
def test_dense_layers_do_not_depend_on_the_order(model, order):
    dense = run(model, batch=2)
    enable_vsa(model, topk=2, order=order)  # all tiles: the model's own attention
    assert same_output(run(model, batch=2), dense)
    with_return_dict = {**inputs(batch=2), "return_dict": True}
    with torch.no_grad():
        assert torch.equal(model(**with_return_dict).sample, run(model, batch=2))
    disable_vsa(model)
    assert torch.equal(run(model, batch=2), dense)
    assert not model.patch_embedding._forward_hooks and not model._forward_hooks


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("gates", [None, gate_weights()])
def test_the_attention_is_that_of_the_order(model, order, gates):
    """The model in the order of the curve against the operator that takes tensors in raster order."""
    enable_vsa(model, topk=1, gates=gates, order=order)
    got = run(model)

    tokens = vsa_torch.tokens_in_order(GRID, order=order)
    seen = []

    def check(attn, args, out):
        x, _, _, (cos, sin, facts, _) = args
        back = tokens.argsort()
        raster = [t[:, back] for t in (x, cos, sin)]
        operator = vsa_torch.video_sparse_attention

        def in_raster_order(*tensors, q_tile_len, padded, **options):
            assert not padded
            return operator(*tensors, grid=GRID, order=order, **options)

        from vsa_torch.diffusers import _processor
        _processor.video_sparse_attention = in_raster_order
        try:
            want = attn.processor.attend(attn, raster[0], raster[1:], facts, None)
        finally:
            _processor.video_sparse_attention = operator
        seen.append(torch.equal(out[:, back], want) or same_output(out[:, back], want))

    handles = [block.attn1.register_forward_hook(check) for block in model.blocks]
    assert torch.equal(run(model), got)
    for handle in handles:
        handle.remove()
    assert seen == [True] * len(model.blocks)


def test_gradients_flow(model):
    enable_vsa(model, topk=2, gates=gate_weights(), order="gilbert")
    model.requires_grad_(True)
    model(**inputs())[0].square().sum().backward()
    curve = model.patch_embedding.weight.grad.clone()
    model.zero_grad()
    enable_vsa(model, topk=4, order="raster")  # all tiles: the same but for the order of sums
    assert curve.abs().sum() > 0


def test_a_compiled_model_gives_the_same(model):
    enable_vsa(model, topk=1, order="gilbert")
    want = run(model)
    compiled = torch.compile(model)
    assert same_output(run(compiled), want)


def test_what_does_not_fit_is_refused(model):
    with pytest.raises(ValueError, match=r"\[enable_vsa\] order: expected raster or gilbert"):
        enable_vsa(model, topk=1, order="hilbert")
    with pytest.raises(ValueError, match=r"\[enable_vsa\] tile_shape: expected 64 or 128"):
        enable_vsa(model, topk=1, order="gilbert", tile_shape=(3, 5, 4))
    enable_vsa(model, topk=1, order="gilbert")
    options = inputs()
    options["timestep"] = torch.full((1, 90), 500)
    with pytest.raises(NotImplementedError, match=r"\[enable_vsa\] order: expected raster for a timestep of each token"):
        model(**options)


def test_gates_that_were_trained_with_a_tile_need_raster_order(model, tmp_path):
    enable_vsa(model, topk=1, gates=gate_weights())
    model.save_pretrained(tmp_path)
    trained = type(model).from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"\[enable_vsa\] order: expected raster, as the gates were trained or saved"):
        enable_vsa(trained, topk=1, order="gilbert")
    enable_vsa(model, topk=1, gates=gate_weights(), order="gilbert")
    assert model.config["_vsa_tile"] is None
