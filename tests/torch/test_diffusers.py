"""enable_vsa on tiny random Wan transformers: what changes, what must not, what is refused."""

import copy
import io
import itertools

import pytest
import torch

import vsa_torch

pytest.importorskip("diffusers")
from diffusers import WanTransformer3DModel  # noqa: E402

from tiny_wan import GRID, LAYERS, gate_weights, inputs, run, same_output  # noqa: E402
from vsa_torch.diffusers import disable_vsa, enable_vsa  # noqa: E402
from vsa_torch.diffusers._report import Stopwatch  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 2])
def test_all_tiles_without_gates_is_the_dense_model(model, close, batch, dtype):
    model.to(dtype)
    dense = run(model, batch=batch, dtype=dtype)
    # topk = 4 tiles would take the model's own attention; a list of all tiles must agree with it, too.
    enable_vsa(model, topk=4, fused=False)
    assert torch.equal(run(model, batch=batch, dtype=dtype), dense)
    zero_gates = {name: torch.zeros_like(tensor) for name, tensor in gate_weights().items()}
    enable_vsa(model, sparsity=0.0, gates=zero_gates)
    # Each of the layers rounds q, k, v, out and the residual once more than the other does.
    close(run(model, batch=batch, dtype=dtype), dense.double(), roundings=5 * LAYERS)


def test_sparse_differs_and_disable_brings_dense_back(model):
    dense = run(model)
    enable_vsa(model, topk=1)
    assert not torch.allclose(run(model), dense, atol=1e-3)
    disable_vsa(model)
    assert torch.equal(run(model), dense)
    assert not model._forward_pre_hooks


def test_self_attention_is_the_operator_between_the_projections(model, close):
    """The processor against a restatement of the block's attention with the public operator."""
    enable_vsa(model, topk=2, gates=gate_weights())
    attn = model.blocks[1].attn1
    seen = {}
    handle = attn.register_forward_hook(lambda m, args, out: seen.update(args=args, out=out))
    run(model)
    handle.remove()
    x, _, _, (cos, sin, *_) = seen["args"]
    q, k = attn.norm_q(attn.to_q(x)), attn.norm_k(attn.to_k(x))
    q, k, v, gate = (t.unflatten(2, (2, 16)) for t in (q, k, attn.to_v(x), attn.to_gate_compress(x)))
    # Rotary embedding as a product of complex numbers.
    turn = torch.complex(cos[..., 0::2].double(), sin[..., 0::2].double())
    q, k = (torch.view_as_real(torch.view_as_complex(t.double().unflatten(-1, (-1, 2))) * turn).flatten(-2).float()
            for t in (q, k))
    want = attn.to_out[0](vsa_torch.video_sparse_attention(q, k, v, gate, grid=GRID, topk=2).flatten(2))
    close(seen["out"], want.double(), roundings=16)


def test_attention_to_text_is_untouched(model):
    enable_vsa(model, topk=1)
    assert all(type(block.attn2.processor).__name__ == "WanAttnProcessor" for block in model.blocks)


def test_dense_steps_dense_layers_and_the_report(model):
    report = enable_vsa(model, topk=1, dense_steps=1, dense_layers=[1])
    for timestep in (900, 900, 600, 600):  # twice each: guidance
        run(model, timestep=timestep)
    routes = [(row.step, row.layer, row.route, row.kept) for row in report.rows]
    first = [(0, layer, "dense", 1.0) for layer in range(LAYERS)]
    second = [(1, 0, "vsa", 0.25), (1, 1, "dense", 1.0), (1, 2, "vsa", 0.25)]
    assert routes == first * 2 + second * 2
    assert all(row.seconds > 0 for row in report.rows) and report.kept == 0.75
    assert "step 1: kept 50.0%, dense layers [1]" in str(report)
    run(model, timestep=900)  # a higher timestep begins a new run
    assert [row.step for row in report.rows] == [0] * LAYERS


@pytest.mark.parametrize("schedule", [[0.0, 0.5, 0.75], lambda step: min(0.75, 1 - 0.5**step)])
def test_schedule_gives_the_sparsity_of_each_step(model, schedule):
    report = enable_vsa(model, schedule=schedule)
    kept = []
    for timestep in (900, 600, 300, 100):
        run(model, timestep=timestep)
        kept.append(report.rows[-1].kept)
    assert kept == [1.0, 0.5, 0.25, 0.25]


@pytest.mark.parametrize("gates", [None, gate_weights()])
def test_compiled_blocks_do_not_compile_again_for_every_layer_and_step(model, gates):
    enable_vsa(model, topk=1, dense_steps=1, gates=gates)
    eager = [run(model, timestep=t) for t in (900, 700, 500, 300)]
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    for block in model.blocks:
        block.compile(fullgraph=True, backend=backend)
    torch._dynamo.reset()
    compiled = [run(model, timestep=t) for t in (900, 700, 500, 300)]
    for a, b in zip(compiled, eager):
        torch.testing.assert_close(a, b)
    assert len(graphs) == 2  # all tiles, and one tile


def test_a_deep_copy_counts_its_own_steps(model):
    """As an average of weights, say: it must not stay in the dense steps, nor count in the original's report."""
    report = enable_vsa(model, topk=1, dense_steps=1)
    run(model, timestep=900)
    average = copy.deepcopy(model)
    for timestep in (950, 600):
        run(average, timestep=timestep)
    routes = [(row.step, row.route) for row in average.blocks[0].attn1.processor.report.rows]
    assert routes == [(0, "dense")] * LAYERS + [(1, "vsa")] * LAYERS
    assert [row.step for row in report.rows] == [0] * LAYERS
    disable_vsa(average)
    assert not average._forward_pre_hooks and model._forward_pre_hooks
    run(model, timestep=600)
    assert report.rows[-1].route == "vsa"


def test_a_model_with_vsa_is_saved_whole(model):
    enable_vsa(model, sparsity=0.75, gates=gate_weights())
    want, file = run(model), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert same_output(run(torch.load(file, weights_only=False)), want)


def test_times_of_a_gpu_are_copied_as_seconds():
    class Event:
        def __reduce__(self):
            raise TypeError("cannot be copied")

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return 1500.0

    stopwatch = Stopwatch(torch.device("cpu"))
    stopwatch._start, stopwatch._events = None, [Event(), Event()]
    assert copy.deepcopy(stopwatch).seconds == 1.5 and stopwatch.seconds == 1.5


def test_a_replaced_processor_is_not_silently_dense(model):
    enable_vsa(model, topk=1)
    model.blocks[1].attn1.set_processor(type(model.blocks[1].attn2.processor)())
    with pytest.raises(ValueError, match="expected the processor that it set in layer 1, got WanAttnProcessor"):
        run(model)
    enable_vsa(model, topk=1)
    run(model)


def test_settings_of_diffusers_reach_the_dense_processor(model):
    enable_vsa(model, topk=1)
    model.blocks[0].attn1.processor._attention_backend = "native"
    assert model.blocks[0].attn1.processor.dense._attention_backend == "native"
    with pytest.raises(NotImplementedError, match="context parallelism"):
        model.blocks[0].attn1.processor._parallel_config = object()
    disable_vsa(model)
    model.blocks[0].attn1.processor._parallel_config = object()
    with pytest.raises(NotImplementedError, match="context parallelism"):
        enable_vsa(model, topk=1)


def test_image_models_with_their_extra_attention(close):
    torch.manual_seed(7)
    model = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4,
                                  text_dim=24, freq_dim=16, ffn_dim=48, num_layers=1, rope_max_seq_len=32,
                                  image_dim=20, added_kv_proj_dim=32).eval()
    extra = dict(inputs(), encoder_hidden_states_image=torch.randn(1, 5, 20),
                 encoder_hidden_states=torch.randn(1, 512, 24))
    with torch.no_grad():
        dense = model(**extra)[0]
        enable_vsa(model, sparsity=0.0)
        assert same_output(model(**extra)[0], dense)
        enable_vsa(model, topk=1)
        assert not torch.equal(model(**extra)[0], dense)


def test_timesteps_for_every_token_as_in_ti2v(model):
    report = enable_vsa(model, topk=1)
    call = inputs()
    call["timestep"] = torch.tensor([0] * 30 + [700] * 60).unsqueeze(0)  # the first frame is given
    with torch.no_grad():
        model(**call)
    assert [row.route for row in report.rows] == ["vsa"] * LAYERS


def test_fused_projections(model, close):
    enable_vsa(model, topk=2)
    apart = run(model)
    for block in model.blocks:
        block.attn1.fuse_projections()
    close(run(model), apart.double(), roundings=16)


def test_gradients_reach_the_gates(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    model(**inputs())[0].sum().backward()
    for block in model.blocks:
        assert block.attn1.to_gate_compress.weight.grad.abs().sum() > 0


def test_a_pipeline_with_one_transformer(model):
    class Pipeline:
        transformer, transformer_2 = model, None

    report = enable_vsa(Pipeline(), topk=1)
    run(model)
    assert len(report.rows) == LAYERS


def test_steps_count_over_both_transformers_of_wan_22(model):
    """The first runs the noisy steps and the second the rest: dense_steps and schedule are those of the video."""
    class Pipeline:
        transformer, transformer_2 = model, copy.deepcopy(model)

    pipe = Pipeline()
    report = enable_vsa(pipe, schedule=[0.0, 0.5, 0.75], gates=gate_weights())
    assert report.num_gates == 2 * LAYERS
    for part, timestep in ((pipe.transformer, 950), (pipe.transformer, 900), (pipe.transformer_2, 600),
                           (pipe.transformer_2, 200)):
        run(part, timestep=timestep)
    assert [(row.step, row.kept) for row in report.rows[::LAYERS]] == [(0, 1.0), (1, 0.5), (2, 0.25), (3, 0.25)]
    disable_vsa(pipe, drop_gates=True)
    assert not pipe.transformer_2._forward_pre_hooks


MISSING_LAYER = dict(itertools.islice(gate_weights().items(), 4))
WRONG = {
    "two_ways": (dict(topk=1, sparsity=0.5), "sparsity: expected one of .* got sparsity and topk"),
    "none": (dict(), "sparsity: expected one of .* got none"),
    "nan": (dict(sparsity=float("nan")), "sparsity: expected a finite"),
    "per_cent": (dict(sparsity=90), "sparsity: expected a share of at most 1, got 90"),
    "topk": (dict(topk=0), "topk: expected 1 to"),
    "topk_float": (dict(topk=2.0), "topk: expected 1 to"),
    "schedule_in_per_cent": (dict(schedule=[0.0, 90]), "schedule: expected a share of at most 1"),
    "empty_schedule": (dict(schedule=[]), "schedule: expected at least one"),
    "dense_steps": (dict(topk=1, dense_steps=-1), "dense_steps"),
    "dense_layers": (dict(topk=1, dense_layers=[3]), r"dense_layers: expected 0 to 2 \(layers\), got 3"),
    "gates_in_some_layers": (dict(topk=1, gates=MISSING_LAYER), "gates: expected to_gate_compress in 3 layers"),
    "gates_of_more_layers": (dict(topk=1, gates=gate_weights() | {
        "blocks.3.to_gate_compress.weight": torch.ones(32, 32), "blocks.3.to_gate_compress.bias": torch.ones(32)}),
        "gates: expected to_gate_compress in 3 layers or in none, got 3 of them with a weight and 4 in all"),
    "no_gates_where_promised": (dict(topk=1, gates={}), "gates: expected tensors"),
    "gates_twice": (dict(topk=1, gates=gate_weights() | gate_weights("attn1.")), "gates: expected one weight"),
    "gate_shape": (dict(topk=1, gates=gate_weights() | {"blocks.0.to_gate_compress.weight": torch.ones(3, 3)}),
                   r"gates: expected blocks.0.to_gate_compress.weight of shape \(32, 32\)"),
    "tile_shape": (dict(topk=1, tile_shape=(4, 4)), r"\[enable_vsa\] tile_shape: expected three"),
    # One tile would hold the whole video, and all attention would be dense.
    "tile_too_large": (dict(topk=1, tile_shape=(8, 8, 8)), r"\[enable_vsa\] tile_shape: expected at most 256 tokens"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_named_and_change_nothing(model, name):
    dense = run(model)
    settings, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        enable_vsa(model, **settings)
    assert torch.equal(run(model), dense)


@pytest.mark.parametrize("settings, message", [
    (dict(sparsity="0.9"), "sparsity: expected a number, got str"), (dict(schedule=3), "schedule: expected sparsities"),
    (dict(schedule="0.9"), "schedule: expected sparsities"), (dict(topk=1, gates=True), "gates: expected auto, a path"),
    (dict(schedule={0: 0.5}), "schedule: expected sparsities"), (dict(schedule={0.5}), "schedule: expected sparsities"),
    (dict(schedule=lambda step, steps: 0.5), "schedule: expected a function of the step alone, got one of .step, steps."),
    (dict(topk=1, dense_layers=1), "dense_layers: expected a sequence")])
def test_settings_of_other_types_are_named(model, settings, message):
    with pytest.raises(TypeError, match=message):
        enable_vsa(model, **settings)


@pytest.mark.parametrize("value, error", [(float("nan"), ValueError), (90, ValueError), (None, TypeError)])
def test_what_a_schedule_gives_is_checked(model, value, error):
    enable_vsa(model, schedule=lambda step: value)
    with pytest.raises(error, match="schedule: expected a"):
        run(model)


def test_other_models_are_not_implemented():
    with pytest.raises(NotImplementedError, match="WanTransformer3DModel .* got Linear"):
        enable_vsa(torch.nn.Linear(2, 2), topk=1)
