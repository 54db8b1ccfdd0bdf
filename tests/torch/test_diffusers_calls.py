"""What a call depends on travels with that call: threads, recomputation, copies and compiled models compute each call
with its own grid and its own tiles."""

import copy
import functools
import io
import threading

import pytest
import torch

pytest.importorskip("diffusers")

from tiny_wan import GRID, LAYERS, gate_weights, inputs, pipeline, run, same_output, transformer  # noqa: E402
from vsa_torch.diffusers import disable_vsa, enable_vsa, vsa_step  # noqa: E402

GRIDS = [(4, 4, 16), (4, 16, 4)]  # as many tokens, and tiles, but others
SETTINGS = {"topk": dict(topk=2), "dense_steps": dict(topk=1, dense_steps=1), "schedule": dict(schedule=[0.25, 0.75]),
            "dense_layers": dict(topk=1, dense_layers=[1]), "function": dict(schedule=lambda step: min(0.75, 0.25 + step / 2))}


def call_of(grid, timestep):
    frames, rows, columns = grid
    generator = torch.Generator().manual_seed(rows)
    return dict(inputs(timestep=timestep),
                hidden_states=torch.randn(1, 4, frames, 2 * rows, 2 * columns, generator=generator))


def gradients(model):
    """Of one backward after the forwards of two steps of two grids."""
    model.zero_grad()
    outs = [model(**call_of(grid, timestep))[0] for grid, timestep in zip(GRIDS, (900, 600))]
    sum((out**2).sum() for out in outs).backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()
            if parameter.grad is not None}


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("gates", [None, "auto"])
def test_p08_gradients_under_checkpointing_are_those_without(model, settings, reentrant, gates):
    settings = dict(SETTINGS[settings], gates=gate_weights() if gates else None)
    report = enable_vsa(model, **settings)
    want, rows = gradients(model), len(report.rows)
    enable_vsa(model, **dict(settings, gates="auto"))
    checkpoint = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=reentrant)
    model.enable_gradient_checkpointing(lambda block, *args: checkpoint(block.__call__, *args))
    got = gradients(model)
    assert got.keys() == want.keys() and any("to_q" in name for name in got)
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, want[name])
    assert len(model.blocks[0].attn1.processor.report.rows) == rows  # what is computed again is no row again


def test_p08_recomputed_in_another_thread_after_other_calls(model):
    enable_vsa(model, topk=1, dense_steps=1)
    want = gradients(model)
    enable_vsa(model, topk=1, dense_steps=1)
    model.enable_gradient_checkpointing()
    model.zero_grad()
    outs = [model(**call_of(grid, timestep))[0] for grid, timestep in zip(GRIDS, (900, 600))]
    run(model, timestep=950)
    enable_vsa(transformer(), topk=3)
    thread = threading.Thread(target=lambda: sum((out**2).sum() for out in outs).backward())
    thread.start()
    thread.join()
    got = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert got.keys() == want.keys()
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, want[name])


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("settings", [dict(topk=3), dict(topk=1, tile_shape=(4, 2, 4)), dict(topk=1, tile_shape=(1, 4, 4)),
                                      dict(topk=1, dense_layers=[0, 2]), dict(topk=1, dense_layers=[])])
def test_p08_recomputed_after_other_settings(model, settings, reentrant):
    before = dict(topk=1, tile_shape=(2, 4, 4), dense_layers=[1], gates=gate_weights())
    enable_vsa(model, **before)
    want = gradients(model)
    enable_vsa(model, **before)
    checkpoint = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=reentrant)
    model.enable_gradient_checkpointing(lambda block, *args: checkpoint(block.__call__, *args))
    model.zero_grad()
    outs = [model(**call_of(grid, timestep))[0] for grid, timestep in zip(GRIDS, (900, 600))]
    report = enable_vsa(model, **settings)
    run(model)
    rows = len(report.rows)
    sum((out**2).sum() for out in outs).backward()
    assert len(report.rows) == rows
    got = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert got.keys() == want.keys()
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, want[name])


def test_p08_transforms_of_torch_func(model):
    enable_vsa(model, sparsity=0.5, gates=gate_weights())
    parameters, call = dict(model.named_parameters()), call_of(GRIDS[0], 900)

    def loss(parameters, hidden_states):
        timestep = torch.full((1,), 900)  # made here, it is wrapped by the transform
        arguments = dict(call, hidden_states=hidden_states, timestep=timestep)
        return (torch.func.functional_call(model, parameters, (), arguments)[0] ** 2).sum()

    loss(parameters, call["hidden_states"]).backward()
    want = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}
    got = torch.func.grad(loss)(parameters, call["hidden_states"])
    videos = torch.stack([call["hidden_states"]] * 2)
    each = torch.vmap(torch.func.grad(loss), (None, 0))(parameters, videos)
    for name, gradient in want.items():
        torch.testing.assert_close(got[name], gradient)
        torch.testing.assert_close(each[name][1], gradient, rtol=1e-4, atol=1e-4)


def test_p08_checkpoint_wrappers_of_torch_distributed(model):
    wrapper = pytest.importorskip("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    enable_vsa(model, topk=1, dense_steps=1, gates=gate_weights())
    want = gradients(model)
    for n, block in enumerate(model.blocks):
        model.blocks[n] = wrapper.checkpoint_wrapper(block)
    enable_vsa(model, topk=1, dense_steps=1)
    got = gradients(model)
    assert len(got) == len(want)
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, want[name.replace("_checkpoint_wrapped_module.", "")])


@pytest.mark.parametrize("settings", SETTINGS)
def test_p09_two_threads_and_two_grids_on_one_model(model, settings):
    grids, timesteps = [(4, 6, 8), (4, 8, 6)], (900, 600, 300)
    enable_vsa(model, gates=gate_weights(), **SETTINGS[settings])
    with torch.no_grad():
        want = {grid: [model(**call_of(grid, t))[0] for t in timesteps] for grid in grids}
    wrong, start = [], threading.Barrier(2)

    def work(grid):
        start.wait()
        with torch.no_grad():
            for _ in range(15):
                for timestep, expected in zip(timesteps, want[grid]):
                    if not torch.equal(model(**call_of(grid, timestep))[0], expected):
                        wrong.append((grid, timestep))

    threads = [threading.Thread(target=work, args=(grid,)) for grid in grids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_p09_each_thread_says_its_step(model):
    enable_vsa(model, schedule=[0.0, 0.75])
    want = []
    for step in range(2):
        with vsa_step(model, step):
            want.append(run(model))
    got, barrier = {}, threading.Barrier(2)

    def work(step):
        with vsa_step(model, step):
            barrier.wait()
            got[step] = run(model)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(step,)) for step in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(got[step], want[step]) for step in range(2))


def test_replicas_as_of_data_parallel(model):
    """Replicas share hooks and processors, and run in threads of their own."""
    enable_vsa(model, topk=1, dense_steps=1, gates=gate_weights())
    replicas = {module: module._replicate_for_data_parallel() for module in model.modules()}
    for module, replica in replicas.items():
        for name, child in module._modules.items():
            replica._modules[name] = replicas.get(child)
        for name, parameter in module._parameters.items():
            setattr(replica, name, parameter)
    replica = replicas[model]
    with torch.no_grad():
        want = [model(**call_of(grid, 900))[0] for grid in GRIDS]
        got = [None, None]

        def work(i):
            with torch.no_grad():
                got[i] = (model, replica)[i](**call_of(GRIDS[i], 900))[0]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(torch.equal(a, b) for a, b in zip(got, want))


def test_compiled_blocks_with_other_grids(model):
    enable_vsa(model, topk=2, gates=gate_weights())
    calls = [call_of(grid, 500) for grid in (*GRIDS, (3, 5, 6))]
    with torch.no_grad():
        want = [model(**call)[0] for call in calls]
        torch._dynamo.reset()
        for block in model.blocks:
            block.compile(fullgraph=True, backend="eager")
        for call, expected in zip(calls * 2, want * 2):
            torch.testing.assert_close(model(**call)[0], expected)


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_whole_with_other_grids_and_a_gradient(model, dynamic):
    enable_vsa(model, topk=2, gates=gate_weights())
    calls = [call_of(grid, 500) for grid in (*GRIDS, (3, 5, 6))]
    want = [model(**call)[0] for call in calls]
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for call, expected in zip(calls, want):
        out = compiled(**call)[0]
        torch.testing.assert_close(out, expected)
    out.sum().backward()
    assert model.blocks[0].attn1.to_gate_compress.weight.grad is not None


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, functools.partial(torch.compile, backend="eager")])
def test_wrapped_models_are_enabled_and_disabled(model, wrap):
    dense, wrapped = run(model), wrap(model)
    enable_vsa(wrapped, topk=1, gates=gate_weights())
    inside = run(model)
    assert not torch.allclose(inside, dense, atol=1e-3)
    torch.testing.assert_close(run(wrapped), inside)
    disable_vsa(wrapped, drop_gates=True)
    assert torch.equal(run(model), dense)


def test_a_compiled_transformer_in_a_pipeline_is_enabled(model):
    pipe = pipeline(model)
    pipe.transformer = torch.compile(model, backend="eager")
    report = enable_vsa(pipe, topk=1)
    run(model)
    assert len(report.rows) == LAYERS


def test_copies_and_files_keep_what_they_are_and_count_their_own_runs(model):
    report = enable_vsa(model, topk=1, dense_steps=1, gates=gate_weights())
    want = [run(model, timestep=t) for t in (900, 600)]
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert all(same_output(run(other, timestep=t), out) for t, out in zip((900, 600), want))
        with vsa_step(other, 0):
            assert same_output(run(other, timestep=900), want[0])
        assert other.cache_context.args[0] is other
        disable_vsa(other, drop_gates=True)
        assert "cache_context" not in other.__dict__ and not other.rope._forward_hooks
    assert [row.step for row in report.rows[::LAYERS]] == [0, 1]
    assert model.rope._forward_hooks


def test_a_block_alone_and_forward_itself_are_told_apart(model):
    enable_vsa(model, topk=1)
    want = run(model)
    with torch.no_grad():
        assert torch.equal(model.forward(**inputs())[0], want)  # nothing depends on the step
        enable_vsa(model, topk=1, dense_steps=1)
        run(model, timestep=900)
        with pytest.raises(ValueError, match="timestep: expected a call whose step is known"):
            model.forward(**inputs())
        x, rotary = torch.randn(1, 90, 32), (torch.ones(1, 90, 1, 16), torch.zeros(1, 90, 1, 16))
        with pytest.raises(ValueError, match="grid: expected a call of the whole transformer"):
            model.blocks[0](x, torch.randn(1, 8, 32), torch.randn(1, 6, 32), rotary)


def test_the_model_without_vsa_gets_its_own_rotary_embedding(model):
    seen = []
    model.blocks[0].attn1.register_forward_hook(lambda module, args, out: seen.append(len(args[3])))
    enable_vsa(model, topk=1)
    run(model)
    disable_vsa(model)
    run(model)
    assert seen == [4, 2] and GRID


def test_a_call_without_what_it_needs_is_the_models_own_error(model):
    enable_vsa(model, topk=1, dense_steps=1)
    with pytest.raises(TypeError, match="timestep"):
        model(hidden_states=inputs()["hidden_states"])


def test_tensors_without_data(model):
    """As for an estimate of memory, and for torch.export."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    enable_vsa(model, topk=1, gates=gate_weights())
    want = run(model)
    exported = torch.export.export(model, (), kwargs=inputs()).module()
    torch.testing.assert_close(exported(**inputs())[0], want)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert model(**inputs())[0].shape == want.shape
    assert torch.equal(run(model), want)
