"""compat and enable_vsa on CUDA tensors: against the restatement, and against FastVideo's own wheel where it is."""

import math

import pytest
import torch

import restatement
import vsa_torch
from test_gpu import doubles
from vsa_torch import lists
from vsa_torch.compat import aiter, fastvideo

pytestmark = pytest.mark.gpu

GRID = (5, 6, 7)


def tiled_inputs(make, grid, heads=2, head_dim=128):
    """q, k, v, gate [1, H, N * 64, D] in tile order with zeros in padding, as FastVideo wants them, and the sizes."""
    tokens = math.prod(grid)
    tensors = [vsa_torch.tile(make(1, tokens, heads, head_dim, dtype=torch.bfloat16), grid=grid) for _ in range(4)]
    sizes = fastvideo.build_vsa_metadata(grid)["variable_block_sizes"]
    return [t.transpose(1, 2).contiguous().cuda() for t in tensors], sizes.cuda()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("gated", [False, True])
@torch.no_grad()
def test_fastvideo_video_sparse_attn(make, close, gated, strict):
    (q, k, v, gate), sizes = tiled_inputs(make, GRID)
    out = fastvideo.video_sparse_attn(q, k, v, sizes, sizes, 3, (4, 4, 4), gate if gated else None, strict=strict)
    raster = [vsa_torch.untile(t.cpu().transpose(1, 2), grid=GRID).double() for t in (q, k, v, gate)]
    want, _, _ = restatement.attention(*raster[:3], raster[3] if gated else torch.ones_like(raster[3]), grid=GRID,
                                       topk=3)
    # Strict mode rounds scores, weights and means of the coarse branch to bfloat16, too.
    close(vsa_torch.untile(out.transpose(1, 2), grid=GRID).cpu(), want, roundings=8 if strict else 4)


@torch.no_grad()
def test_fastvideo_lists_and_packed_sequences(make, close):
    (q, k, v, _), sizes = tiled_inputs(make, GRID)
    block_map = torch.rand(1, 2, 8, 8, generator=torch.Generator().manual_seed(1)) < 0.5
    block_map[..., 0] = True
    out, lse = fastvideo.block_sparse_attn(q, k, v, block_map.cuda(), sizes, strict=True)
    mask = block_map.repeat_interleave(64, 2).repeat_interleave(64, 3)
    mask = mask & (torch.arange(64) < sizes.cpu()[:, None]).flatten()
    want, want_lse = restatement.masked_attention(*(t.transpose(1, 2) for t in doubles((q, k, v))), mask, 128**-0.5)
    close(out.cpu(), want.transpose(1, 2))
    close(lse.cpu(), want_lse)
    # The same as one packed sequence without its padding.
    rows = fastvideo.get_non_pad_index(sizes, 64)
    packed = [t[0].transpose(0, 1)[rows].contiguous() for t in (q, k, v)]
    ends = torch.tensor([0, len(rows)], device="cuda", dtype=torch.int32)
    index, num = lists.from_map(block_map.cuda())
    varlen = fastvideo.block_sparse_attn_varlen(*packed, ends, ends, [index], [num], [sizes], [sizes])
    assert torch.equal(varlen, out[0].transpose(0, 1)[rows])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_aiter(make, close, dtype):
    q, k, v = make(2, 4, 257, 128, dtype=dtype), *(make(2, 2, 481, 128, dtype=dtype) for _ in range(2))
    kept = torch.rand(2, 4, 3, 4, generator=torch.Generator().manual_seed(7)).argsort(-1) < 2
    delta, counts = (t.cuda() for t in lists.to_delta(*lists.from_map(kept), pitch=4))
    cuda = [t.cuda() for t in (q, k, v)]
    out = aiter.vsa_sparse_attention(*cuda, delta, counts, strict=True)
    mask = kept.repeat_interleave(128, 2)[:, :, :257].repeat_interleave(128, 3)[..., :481]
    want, _ = restatement.masked_attention(*(t.double().transpose(1, 2) for t in (q, k, v)), mask, 128**-0.5)
    close(out.cpu(), want.transpose(1, 2))
    assert torch.equal(aiter.jenga_sparse_attention(*cuda, kept.byte().cuda(), strict=True), out)
    written = torch.empty_like(out)
    assert aiter.vsa_sparse_attention(*cuda, delta, counts, written) is written and torch.equal(written, out)


# --- FastVideo's wheel, as a live contestant ------------------------------------------------------

STATED = 0.02  # largest difference by largest value, in FastVideo's own test of its kernels


@pytest.fixture
def original():
    return pytest.importorskip("fastvideo_kernel", exc_type=ImportError)


@torch.no_grad()
def test_the_wheel_agrees_on_a_list(original, make):
    (q, k, v, _), sizes = tiled_inputs(make, (9, 16, 18), heads=4)
    tiles = len(sizes)
    block_map = torch.rand(1, 4, tiles, tiles, generator=torch.Generator().manual_seed(1)).argsort(-1) < 8
    theirs = original.block_sparse_attn(q, k, v, block_map.cuda(), sizes)[0]
    ours = fastvideo.block_sparse_attn(q, k, v, block_map.cuda(), sizes, strict=True)[0]
    rows = fastvideo.get_non_pad_index(sizes, 64)
    difference = (theirs - ours)[:, :, rows].float().abs().max() / ours.float().abs().max()
    assert difference < STATED


@pytest.mark.parametrize("gated", [False, True])
@torch.no_grad()
def test_the_wheel_agrees_on_the_whole_operator(original, make, gated):
    (q, k, v, gate), sizes = tiled_inputs(make, (9, 16, 18), heads=4)
    arguments = (q, k, v, sizes, sizes, 8, (4, 4, 4), gate if gated else None)
    theirs, ours = original.video_sparse_attn(*arguments), fastvideo.video_sparse_attn(*arguments, strict=True)
    valid = (torch.arange(64, device="cuda") < sizes[:, None])[:, :, None]
    differences = ((theirs - ours).float().unflatten(2, (-1, 64)) * valid).abs().amax((0, 3, 4))  # [H, N]
    # Where scores tie once rounded to bfloat16, or differ in their last bit, another tile may be kept.
    within = differences / ours.float().abs().max() < STATED
    assert within.float().mean() > 0.9


# --- diffusers ------------------------------------------------------------------------------------


@pytest.fixture
def wan():
    """A tiny Wan transformer in bfloat16 on the GPU, and its inputs: 5 x 6 x 7 tokens, a batch of 2."""
    WanTransformer3DModel = pytest.importorskip("diffusers").WanTransformer3DModel
    torch.manual_seed(7)
    model = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=64, in_channels=4, out_channels=4,
                                  text_dim=24, freq_dim=16, ffn_dim=128, num_layers=2, rope_max_seq_len=32,
                                  patch_size=(1, 2, 2)).to("cuda", torch.bfloat16).eval()
    generator = torch.Generator().manual_seed(3)
    inputs = dict(hidden_states=torch.randn(2, 4, 5, 12, 14, generator=generator).cuda().bfloat16(),
                  timestep=torch.full((2,), 500, device="cuda"), return_dict=False,
                  encoder_hidden_states=torch.randn(2, 8, 24, generator=generator).cuda().bfloat16())
    return model, inputs


def gate_weights(scale):
    generator = torch.Generator().manual_seed(5)
    return {f"blocks.{n}.to_gate_compress.{part}": scale * torch.randn(*shape, generator=generator) / 12
            for n in range(2) for part, shape in (("weight", (128, 128)), ("bias", (128,)))}


@torch.no_grad()
def test_a_list_of_all_tiles_is_the_dense_model(wan, close):
    from vsa_torch.diffusers import disable_vsa, enable_vsa

    model, inputs = wan
    dense = model(**inputs)[0]
    enable_vsa(model, sparsity=0.0, gates=gate_weights(0.0))
    close(model(**inputs)[0].cpu(), dense.cpu().double(), roundings=10)
    disable_vsa(model, drop_gates=True)
    assert torch.equal(model(**inputs)[0], dense)


@torch.no_grad()
def test_the_sparse_model_is_that_of_the_cpu(wan, close):
    from vsa_torch.diffusers import enable_vsa

    model, inputs = wan
    report = enable_vsa(model, topk=2, gates=gate_weights(1.0))
    out = model(**inputs)[0].cpu()
    assert report.num_gates == 2 and [row.kept for row in report.rows] == [0.25] * 2
    assert all(0 < row.seconds < 10 for row in report.rows) and " s" in str(report)
    cpu_inputs = {name: t.cpu().float() if isinstance(t, torch.Tensor) and t.is_floating_point() else
                  t.cpu() if isinstance(t, torch.Tensor) else t for name, t in inputs.items()}
    want = model.cpu().float()(**cpu_inputs)[0]
    # Rounding moves scores, so a row at a near tie may keep another tile: held as a whole, not by element.
    assert (out.float() - want).norm() / want.norm() < 0.03


@torch.no_grad()
def test_compiled_blocks(wan, close):
    from vsa_torch.diffusers import enable_vsa

    model, inputs = wan
    enable_vsa(model, topk=2, gates=gate_weights(1.0))
    eager = model(**inputs)[0]
    for block in model.blocks:
        block.compile(fullgraph=True)
    compiled = model(**inputs)[0]
    assert (compiled - eager).float().norm() / eager.float().norm() < 0.03
