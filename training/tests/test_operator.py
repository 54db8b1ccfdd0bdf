"""The operator of vsa_torch computes what attention.py does, gradients included."""
import pytest
import torch

pytest.importorskip("vsa_torch")
from training import attention, operator  # noqa: E402
from training.formats import SMALL  # noqa: E402
from training.model import WanConfig, WanTransformer  # noqa: E402


@pytest.mark.parametrize("topk", [3, 8])
def test_the_two_agree(topk):
    plan = attention.tile_plan((8, 8, 8), (4, 4, 4))
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(2, 2, 512, 16, generator=generator).requires_grad_() for _ in range(4)]
    grad = torch.randn(2, 2, 512, 16, generator=generator)
    found = []
    for function in (attention.attention, operator.attention):
        out = function(*inputs, plan, topk)
        found.append((out, *torch.autograd.grad(out, inputs, grad)))
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)


def test_the_model_computes_the_same_with_it():
    torch.manual_seed(4)
    config = WanConfig(num_layers=2, num_attention_heads=2, attention_head_dim=16, ffn_dim=48, text_dim=24, freq_dim=32)
    model = WanTransformer(config).requires_grad_(False)
    inputs = torch.randn(1, 3, SMALL.frames, SMALL.height, SMALL.width), torch.tensor([500.0]), torch.randn(1, 5, 24), 8
    expected = model(*inputs)
    model.set_attention(operator.attention)
    torch.testing.assert_close(model(*inputs), expected, rtol=0, atol=1e-4)


def test_partial_tiles_are_refused():
    plan = attention.tile_plan((8, 8, 6), (4, 4, 4))
    with pytest.raises(ValueError, match="plan: expected a grid of whole tiles"):
        operator.attention(*(torch.randn(1, 1, 384, 16) for _ in range(4)), plan, 2)
