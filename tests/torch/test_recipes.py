"""The recipes that the pages of docs/guide show run, on tiny models, and do what they say."""

import importlib.util
import math
import sys
import types
from pathlib import Path

import pytest
import torch

import fastvideo_layers
import restatement
import vsa_torch

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "torch"


def recipe(name):
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", RECIPES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_custom_model_trains_and_compiles(make):
    torch.manual_seed(0)
    layer = recipe("custom_model").VideoSelfAttention(dim=32, num_heads=2, sparsity=0.5)
    x, goal = make(2, 210, 32), make(2, 210, 32)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    losses = []
    for _ in range(5):
        loss = torch.nn.functional.mse_loss(compiled(x, (5, 6, 7)), goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and layer.gate.weight.any()


def test_fastvideo_kernel_finds_vsa(make, close, monkeypatch):
    for name in ("fastvideo_kernel", "fastvideo_kernel.ops"):
        monkeypatch.setitem(sys.modules, name, None)  # undone after the test
    kernels = recipe("fastvideo_kernel")
    q = make(1, 210, 2, 16)
    tiled = vsa_torch.tile(q, grid=(5, 6, 7)).transpose(1, 2)
    sizes = kernels.build_vsa_metadata((5, 6, 7))["variable_block_sizes"]
    out = kernels.video_sparse_attn(tiled, tiled, tiled, sizes, sizes, 3, (4, 4, 4), torch.zeros_like(tiled))
    want = vsa_torch.video_sparse_attention(q, q, q, grid=(5, 6, 7), topk=3)
    close(vsa_torch.untile(out.transpose(1, 2), grid=(5, 6, 7)), want.double())


def test_fastvideo_install_finds_fastvideo():
    fastvideo = fastvideo_layers.loaded(fastvideo_layers.NEWEST)
    try:
        recipe("fastvideo_install")
        assert hasattr(fastvideo.layer.DistributedAttention_VSA.forward, "vsa_original")
    finally:
        fastvideo_layers.fastvideo_wheel.unload()


def stand_in_for_wan21():
    """Wan2.1's module as far as the recipe touches it: names, arguments and shapes of its self-attention."""
    model = types.ModuleType("wan.modules.model")

    class WanSelfAttention(torch.nn.Module):
        def __init__(self, dim, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, dim // num_heads
            self.q, self.k, self.v, self.o = (torch.nn.Linear(dim, dim) for _ in range(4))
            self.norm_q, self.norm_k = torch.nn.RMSNorm(dim), torch.nn.RMSNorm(dim)

    model.WanSelfAttention = WanSelfAttention
    # Any rotation by position serves; the real one gives float32, whatever comes in.
    model.rope_apply = lambda x, grid_sizes, freqs: x.float() * freqs[:x.shape[1], None, None]
    return model


def test_wan21_script_is_dense_at_sparsity_zero(make, close, monkeypatch):
    model = stand_in_for_wan21()
    modules = types.ModuleType("wan.modules")
    modules.model = model
    for name, module in (("wan", types.ModuleType("wan")), ("wan.modules", modules), ("wan.modules.model", model)):
        monkeypatch.setitem(sys.modules, name, module)
    recipe("wan21_script")
    torch.manual_seed(1)
    attn = model.WanSelfAttention(32, 2)
    x, freqs, grid = make(2, 210, 32), make(256), torch.tensor([[5, 6, 7]] * 2)
    out = attn(x, torch.tensor([210, 210]), grid, freqs, sparsity=0.0)
    q, k = (n(p(x)).unflatten(2, (2, 16)) * freqs[:210, None, None]
            for n, p in ((attn.norm_q, attn.q), (attn.norm_k, attn.k)))
    v = attn.v(x).unflatten(2, (2, 16))
    everything = torch.ones(2, 2, 210, 210, dtype=torch.bool)
    dense, _ = restatement.masked_attention(q.double(), k.double(), v.double(), everything, 1 / math.sqrt(16))
    close(out, attn.double().o(dense.flatten(2)), roundings=8)
    assert not torch.allclose(attn.float()(x, None, grid, freqs), out, atol=1e-3)


def test_diffusers_pipeline_of_text_to_video(capsys):
    pytest.importorskip("diffusers")
    pytest.importorskip("transformers")
    from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
    from transformers import UMT5Config, UMT5EncoderModel

    torch.manual_seed(2)
    transformer = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=16, in_channels=16,
                                        out_channels=16, text_dim=16, freq_dim=16, ffn_dim=32, num_layers=2,
                                        rope_max_seq_len=32, patch_size=(1, 2, 2))
    text = UMT5EncoderModel(UMT5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2))
    vae = AutoencoderKLWan(base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
                           temperal_downsample=[False, True, True])
    pipe = WanPipeline(tokenizer=None, text_encoder=text, vae=vae, transformer=transformer,
                       scheduler=UniPCMultistepScheduler(flow_shift=3.0, prediction_type="flow_prediction",
                                                         use_flow_sigmas=True))
    pipe.set_progress_bar_config(disable=True)
    embeds = torch.randn(1, 8, 16)
    video = recipe("diffusers_wan").generate(pipe, None, prompt_embeds=embeds, negative_prompt_embeds=-embeds,
                                             num_frames=17, height=96, width=96, num_inference_steps=3,
                                             output_type="pt")
    assert video.shape == (17, 3, 96, 96) and not video.isnan().any()
    # 5 x 6 x 6 tokens are 2 x 2 x 2 tiles, of which one is kept; two layers, three steps, with guidance.
    assert "VSA: 12 attentions, 41.7% of the tile pairs kept, 0 gates" in capsys.readouterr().out
