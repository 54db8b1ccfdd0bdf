"""enable_vsa on a GPU: no call waits for it, CUDA graphs record a step that is said, offloading moves the gates."""

import pytest
import torch

pytest.importorskip("diffusers")
import diffusers  # noqa: E402

from vsa_torch.diffusers import enable_vsa, vsa_step  # noqa: E402

pytestmark = pytest.mark.gpu
SCHEDULE = [0.0, 0.5, 0.75]


def gate_weights():
    generator = torch.Generator().manual_seed(5)
    return {f"blocks.{n}.to_gate_compress.{part}": torch.randn(*shape, generator=generator) / 12
            for n in range(2) for part, shape in (("weight", (128, 128)), ("bias", (128,)))}


@pytest.fixture
def wan():
    torch.manual_seed(7)
    return diffusers.WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=64, in_channels=4, out_channels=4, text_dim=24, freq_dim=16,
        ffn_dim=128, num_layers=2, rope_max_seq_len=32).to("cuda", torch.bfloat16).eval()


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(3)
    return dict(hidden_states=torch.randn(1, 4, 5, 12, 14, generator=generator).cuda().bfloat16(), return_dict=False,
                encoder_hidden_states=torch.randn(1, 8, 24, generator=generator).cuda().bfloat16())


@torch.no_grad()
def test_p10_calls_do_not_wait_for_the_gpu(wan, inputs):
    timesteps = torch.tensor([900.0, 600.0, 300.0], device="cuda")
    fresh = [t.clone().reshape(1) for t in timesteps]
    reports = {}
    for settings in (dict(topk=2, gates=gate_weights()), dict(schedule=SCHEDULE)):
        reports[len(reports)] = enable_vsa(wan, **settings)
        wan(**inputs, timestep=timesteps[0].expand(1))  # warms up
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for i, t in enumerate(timesteps):
                wan(**inputs, timestep=t.expand(1))  # a view of the table
                if "topk" in settings:
                    wan(**inputs, timestep=fresh[i])  # not read, since nothing depends on it
                with vsa_step(wan, i):
                    wan(**inputs, timestep=fresh[i])
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert [row.kept for row in reports[1].rows if row.layer == 0][-1] == 0.25


@torch.no_grad()
def test_timesteps_on_the_gpu_are_read_when_the_report_is(wan, inputs):
    report = enable_vsa(wan, topk=2)
    for t in (900, 900, 600, 950, 300):
        wan(**inputs, timestep=torch.full((1,), t, device="cuda"))
    assert [row.step for row in report.rows if row.layer == 0] == [0, 1]


@torch.no_grad()
def test_a_pipeline_on_the_gpu(wan):
    pipe = diffusers.WanPipeline(tokenizer=None, text_encoder=None, vae=None, transformer=wan, transformer_2=None,
                                 scheduler=diffusers.UniPCMultistepScheduler(prediction_type="flow_prediction",
                                                                             use_flow_sigmas=True, flow_shift=3.0))
    pipe.set_progress_bar_config(disable=True)
    embeds = torch.randn(1, 8, 24, generator=torch.Generator().manual_seed(4)).cuda().bfloat16()

    def generate():
        return pipe(prompt_embeds=embeds, negative_prompt_embeds=-embeds, num_inference_steps=3, num_frames=17,
                    height=96, width=112, output_type="latent", generator=torch.Generator().manual_seed(8)).frames

    report = enable_vsa(pipe, schedule=SCHEDULE, gates=gate_weights())
    want = generate()
    assert [row.step for row in report.rows if row.layer == 0] == [0, 0, 1, 1, 2, 2]
    pipe.transformer = torch.compile(wan, fullgraph=True)
    got = generate()
    assert (got - want).float().norm() / want.float().norm() < 0.03


@torch.no_grad()
def test_a_cuda_graph_records_the_step_that_is_said(wan, inputs):
    enable_vsa(wan, schedule=SCHEDULE, gates=gate_weights())
    timestep = torch.full((1,), 900.0, device="cuda")
    with vsa_step(wan, 1):
        want = wan(**inputs, timestep=timestep)[0]
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(2):
                wan(**inputs, timestep=timestep)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = wan(**inputs, timestep=timestep)[0]
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, want)
    with pytest.raises(ValueError, match="timestep: expected a known step while a CUDA graph is captured"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            wan(**inputs, timestep=timestep)


@torch.no_grad()
@pytest.mark.parametrize("stream, disk", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["leaf_level", "block_level"])
def test_p01_group_offloading(wan, inputs, tmp_path, kind, stream, disk):
    """The fused passes step aside for hooked norms, and would round otherwise; test_gpu_diffusers_fused.py has them."""
    timestep = torch.full((1,), 500.0, device="cuda")
    enable_vsa(wan, topk=2, gates=gate_weights(), fused=False)
    want = wan(**inputs, timestep=timestep)[0]
    gates = [block.attn1.to_gate_compress for block in wan.blocks]
    wan.to("cpu")
    wan.enable_group_offload(torch.device("cuda"), torch.device("cpu"), kind, num_blocks_per_group=1,
                             use_stream=stream, offload_to_disk_path=str(tmp_path) if disk else None)
    for _ in range(3):
        assert torch.equal(wan(**inputs, timestep=timestep)[0], want)
        enable_vsa(wan, topk=2, fused=False)
    assert all(block.attn1.to_gate_compress is gate for block, gate in zip(wan.blocks, gates))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["accelerate", "leaf_level", "block_level"])
def test_p05_offloading_before_the_gates(wan, inputs, kind):
    timestep = torch.full((1,), 500.0, device="cuda")
    enable_vsa(wan, topk=2, gates=gate_weights(), fused=False)
    want = wan(**inputs, timestep=timestep)[0]
    enable_vsa(wan, topk=2, gates=None, fused=False)
    wan.to("cpu")
    if kind == "accelerate":
        pytest.importorskip("accelerate").cpu_offload(wan, torch.device("cuda"))
    else:
        wan.enable_group_offload(torch.device("cuda"), torch.device("cpu"), kind, num_blocks_per_group=1)
    enable_vsa(wan, topk=2, gates=gate_weights(), fused=False)
    for _ in range(2):
        assert torch.equal(wan(**inputs, timestep=timestep)[0], want)
    assert wan.blocks[0].attn1.to_gate_compress.weight.device.type in ("meta", "cpu")
