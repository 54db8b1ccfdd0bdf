"""Which run and step a call is of: said by pipelines, tables of timesteps, falling timesteps, and by vsa_step."""

import copy
import threading

import pytest
import torch

pytest.importorskip("diffusers")
import diffusers  # noqa: E402

from tiny_wan import LAYERS, gate_weights, generate, inputs, pipeline, run, transformer  # noqa: E402
from vsa_torch.diffusers import enable_vsa, vsa_step  # noqa: E402
from vsa_torch.diffusers._report import VsaReport  # noqa: E402
from vsa_torch.diffusers._steps import Steps  # noqa: E402


def steps_of(report):
    """[(step, kept)] of layer 0, call by call."""
    return [(row.step, row.kept) for row in report.rows if row.layer == 0]


SCHEDULE = [0.0, 0.5, 0.75, 0.5]
KEPT = [1.0, 0.5, 0.25, 0.5]
TWICE = [(step, kept) for step, kept in enumerate(KEPT) for _ in range(2)]


# --- pipelines ------------------------------------------------------------------------------------


def test_p10_a_run_of_one_step_is_a_run(model):
    pipe = pipeline(model)
    report = enable_vsa(pipe, topk=1)
    for _ in range(50):
        generate(pipe, steps=1, guidance=1.0)
    assert [(row.step, row.layer) for row in report.rows] == [(0, layer) for layer in range(LAYERS)]
    generate(pipe, steps=1)
    assert len(report.rows) == 2 * LAYERS  # both halves of guidance


def test_p10_one_step_again_and_again_without_a_pipeline(model):
    report = enable_vsa(model, topk=1, dense_steps=1)
    for _ in range(50):
        run(model, timestep=1000)
    assert [(row.step, row.layer) for row in report.rows] == [(0, layer) for layer in range(LAYERS)]
    for _ in range(50):
        with vsa_step(model, 0):
            run(model, timestep=1000)
    assert len(report.rows) == LAYERS


@pytest.mark.parametrize("scheduler", [
    None, diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
    diffusers.FlowMatchEulerDiscreteScheduler(shift=1e9)])  # all timesteps are 1000
def test_a_pipeline_says_the_step(model, scheduler):
    pipe = pipeline(model, scheduler=scheduler)
    report = enable_vsa(pipe, schedule=SCHEDULE)
    for _ in range(2):
        generate(pipe)
        assert steps_of(report) == TWICE


def test_a_scheduler_that_is_replaced_later_says_it_too(model):
    pipe = pipeline(model)
    report = enable_vsa(pipe, schedule=SCHEDULE)
    pipe.scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=5.0)
    generate(pipe)
    assert steps_of(report) == TWICE


def test_two_steps_to_a_timestep_of_heun(model):
    pipe = pipeline(model, scheduler=diffusers.FlowMatchHeunDiscreteScheduler(shift=3.0))
    report = enable_vsa(pipe, schedule=SCHEDULE)
    generate(pipe, guidance=1.0)
    assert steps_of(report) == [*TWICE[:-1]]  # the last step is evaluated once


def test_timesteps_for_every_token_in_a_pipeline(model):
    """TI2V: the timestep of the call is no view of the scheduler's."""
    pipe = pipeline(model, expand_timesteps=True)
    report = enable_vsa(pipe, schedule=SCHEDULE)
    for _ in range(2):
        generate(pipe)
        assert steps_of(report) == TWICE


@pytest.mark.parametrize("enabled_apart", [False, True])
def test_both_transformers_of_wan_22_in_a_pipeline(model, enabled_apart):
    pipe = pipeline(model, transformer(), boundary_ratio=0.8)
    if enabled_apart:
        reports = [enable_vsa(part, schedule=SCHEDULE) for part in (pipe.transformer, pipe.transformer_2)]
    else:
        reports = [enable_vsa(pipe, schedule=SCHEDULE)]
    generate(pipe)
    assert [step for report in reports for step in steps_of(report)] == TWICE
    counts = [len(report.rows) for report in reports]
    assert not enabled_apart or 0 not in counts


def test_pipelines_that_share_a_transformer(model):
    pipe = pipeline(model)
    report = enable_vsa(pipe, schedule=SCHEDULE)
    other = pipeline(model, kind="WanPipeline", scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=2.0))
    for each in (pipe, other, pipe):
        generate(each)
        assert steps_of(report) == TWICE


def test_pipelines_that_share_a_transformer_in_threads(model):
    enable_vsa(model, schedule=SCHEDULE)
    pipes = [pipeline(model, expand_timesteps=True) for _ in range(3)]
    want, got = generate(pipes[0]), {}
    threads = [threading.Thread(target=lambda i=i: got.update({i: generate(pipes[i])})) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3 and all(torch.equal(each, want) for each in got.values())


def test_a_pipeline_in_inference_mode(model):
    pipe = pipeline(model)
    with torch.inference_mode():
        report = enable_vsa(pipe, schedule=SCHEDULE, gates=gate_weights())
        generate(pipe)
        assert steps_of(report) == TWICE
        timesteps = torch.tensor([900.0, 700.0, 500.0])
        for t in timesteps:
            model(**{**inputs(), "timestep": t.expand(1)})
        assert steps_of(report) == [(0, 1.0), (1, 0.5), (2, 0.25)]
    model(**inputs())[0].sum().backward()
    assert model.blocks[0].attn1.to_gate_compress.weight.grad is not None


@pytest.mark.parametrize("cache", ["FirstBlockCacheConfig", "MagCacheConfig", "PyramidAttentionBroadcastConfig"])
def test_caches_of_diffusers_beside_it(model, cache):
    pipe = pipeline(model)
    want = None
    if cache == "FirstBlockCacheConfig":
        model.enable_cache(diffusers.FirstBlockCacheConfig(threshold=1e-9))
    elif cache == "MagCacheConfig":
        model.enable_cache(diffusers.MagCacheConfig(mag_ratios=[1.0] * 4, num_inference_steps=4, threshold=-1.0))
    else:
        model.enable_cache(diffusers.PyramidAttentionBroadcastConfig(
            spatial_attention_block_skip_range=2, current_timestep_callback=lambda: pipe.current_timestep or 0))
    report = enable_vsa(pipe, schedule=SCHEDULE)
    want = generate(pipe)
    assert {row.step for row in report.rows} == {0, 1, 2, 3} and torch.equal(generate(pipe), want)


def test_a_loop_that_enters_cache_context_itself(model):
    report = enable_vsa(model, schedule=SCHEDULE)
    for _ in range(2):
        for step in range(4):
            for name in ("cond", "uncond"):
                with model.cache_context(name, step_index=step):
                    run(model, timestep=1000)
        assert steps_of(report) == TWICE
    with model.cache_context("cond"), vsa_step(model, 2):  # the user's word holds
        with model.cache_context("cond", step_index=0):
            run(model)
    assert report.rows[-1].step == 2


def test_a_part_of_the_timesteps_as_in_video_to_video(model):
    """dense_steps are the first of the run, wherever it begins."""
    report = enable_vsa(model, topk=1, dense_steps=1)
    timesteps = torch.tensor([900.0, 700.0, 500.0, 300.0])
    for t in timesteps[2:]:
        call = inputs()
        model(**{**call, "timestep": t.expand(1)})
    assert steps_of(report) == [(0, 1.0), (1, 0.25)]


@pytest.mark.parametrize("expand", [False, True])
def test_a_pipeline_with_a_compiled_transformer(model, expand):
    pipe = pipeline(model, expand_timesteps=expand)
    enable_vsa(pipe, schedule=SCHEDULE)
    want, graphs = generate(pipe), []
    torch._dynamo.reset()

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    pipe.transformer = torch.compile(model, fullgraph=True, backend=backend)
    torch.testing.assert_close(generate(pipe), want)
    assert len(graphs) <= 3 + 1  # 0, 0.5 and 0.75; once more where PyTorch finds a number that changes
    for _ in range(2):
        generate(pipe)
    assert len(graphs) <= 3 + 1


# --- without a pipeline -----------------------------------------------------------------------------


def test_a_view_of_the_schedulers_timesteps_is_not_read():
    steps, table = Steps(), torch.tensor([900, 900, 300])
    places = [steps.of(t.expand(2), needed=True) for t in table for _ in range(2)]
    assert [place.step for place in places] == [0, 0, 1, 1, 2, 2] and len({place.run for place in places}) == 1
    again = steps.of(table[0].expand(2), needed=True)  # the same table from its beginning
    assert (again.run, again.step) == (places[0].run + 1, 0)
    other = [steps.of(t.expand(1), needed=True) for t in torch.tensor([900, 800])]
    assert [(place.run, place.step) for place in other] == [(again.run + 1, 0), (again.run + 1, 1)]


def test_runs_through_two_tables_in_turn():
    steps, tables = Steps(), [torch.tensor([900, 600, 300]), torch.tensor([800, 500, 200])]
    places = [[steps.of(table[i].expand(1), needed=True) for table in tables] for i in range(3)]
    assert [[place.step for place in pair] for pair in places] == [[0, 0], [1, 1], [2, 2]]
    assert {tuple(place.run for place in pair) for pair in places} == {(1, 2)}


def test_memory_that_is_written_again_and_again_is_no_table():
    steps, buffer, seen = Steps(), torch.zeros(4), []
    for t in (900, 900, 600, 300, 950):
        if buffer[2] != t:
            buffer[2] = t
        place = steps.of(buffer[2:3], needed=True)
        seen.append((place.run, place.step))
    assert [step for _, step in seen] == [0, 0, 1, 2, 0] and seen[0][0] == seen[3][0] < seen[4][0]


def test_nothing_is_read_where_nothing_depends_on_it(model, monkeypatch):
    """A timestep on a device: rows keep it, and whoever reads them waits."""
    reads = []
    place = Steps.of

    def on_device(self, timestep, needed):
        assert not needed
        found = place(self, timestep.to("meta"), needed=False)
        assert found.step == 0
        reads.append(timestep)
        return type(found)(None, None, timestep.amax())

    monkeypatch.setattr(Steps, "of", on_device)
    report = enable_vsa(model, topk=1)
    for timestep in (900, 900, 600, 950, 300):
        run(model, timestep=timestep)
    assert steps_of(report) == [(0, 0.25), (1, 0.25)]
    assert "step 1" in str(report) and len(reads) == 5


def test_a_schedule_without_a_step(model):
    """As in training, where the sparsity is another one from time to time: no step is needed."""
    now = [0.0]
    report = enable_vsa(model, schedule=lambda: now[0])
    run(model)
    assert report.kept == 1.0 and not model._vsa.plan.needs_step
    now[0] = 0.75
    run(model, timestep=950)
    assert report.kept == 0.25
    enable_vsa(model, schedule=lambda: now[0], dense_steps=1)
    assert model._vsa.plan.needs_step
    for timestep in (900, 600):
        run(model, timestep=timestep)
    assert steps_of(model._vsa.report) == [(0, 1.0), (1, 0.25)]


def test_a_report_does_not_grow_without_end():
    report, place = VsaReport(), Steps().said(3)
    for _ in range(3000):
        report.add(report.begin(place), 0, "vsa", 0.5, None)
    assert len(report.rows) == VsaReport._MAX_CALLS


def test_vsa_step_says_it(model):
    report = enable_vsa(model, schedule=SCHEDULE)
    for _ in range(2):
        for step in range(4):
            with vsa_step(model, step):
                for _ in range(2):
                    run(model, timestep=10 * step)  # rising
        assert steps_of(report) == TWICE
    with pytest.raises(ValueError, match="vsa_step. step: expected 0 to"):
        vsa_step(model, -1)
    with pytest.raises(ValueError, match="vsa_step. model: expected one after enable_vsa"):
        vsa_step(transformer(), 0)


def test_vsa_step_says_it_to_a_compiled_model(model):
    report = enable_vsa(model, schedule=lambda step: SCHEDULE[step])
    want = []
    for step in range(4):
        with vsa_step(model, step):
            want.append(run(model))
    compiled, rows = torch.compile(model, fullgraph=True, backend="eager"), report.rows
    torch._dynamo.reset()
    for step in range(4):
        with vsa_step(compiled, step):
            torch.testing.assert_close(run(compiled), want[step])
    assert len(report.rows) in (0, len(rows))
    with pytest.raises(Exception, match=r"timestep: expected a call whose step is known.*vsa_step"):
        run(compiled)


def test_a_compiled_model_whose_step_does_not_matter(model):
    enable_vsa(model, topk=1, dense_layers=[1])
    want = [run(model, timestep=t) for t in (900, 600)]
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model.compile(fullgraph=True, backend=backend)
    for t, expected in zip((900, 600), want):
        torch.testing.assert_close(run(model, timestep=t), expected)
    assert len(graphs) == 1


def test_what_a_schedule_gives_is_checked_in_a_pipeline(model):
    pipe = pipeline(model)
    enable_vsa(pipe, schedule=lambda step: 90)
    with pytest.raises(ValueError, match="schedule: expected a share"):
        generate(pipe)


def test_a_pipelines_copy_says_it_to_its_own_transformer(model):
    pipe = pipeline(model)
    report = enable_vsa(pipe, schedule=SCHEDULE)
    twin = copy.deepcopy(pipe.transformer)
    pipe.transformer = twin
    generate(pipe)
    assert steps_of(twin.blocks[0].attn1.processor.report) == TWICE and not report.rows
