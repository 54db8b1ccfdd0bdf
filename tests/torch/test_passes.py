"""The operators around attention, which change their first argument: norm_rope_pool and residual_norm."""

import math

import pytest
import torch

import restatement
import vsa_torch
from vsa_torch.attention import attention_of_means

GRID, TILE = (5, 6, 7), (4, 4, 4)
TOKENS = math.prod(GRID)


def modulation(make, batch=2, heads=3, head_dim=16):
    return [make(batch, 1, heads, head_dim) for _ in range(3)]


def residual_norm(x, y, gate, scale, shift, eps):
    """The same in float64, of x as it is stored."""
    summed = (x.double() + gate.double() * y.double()).to(x.dtype)
    rows = summed.double().flatten(2)
    normed = torch.nn.functional.layer_norm(rows, rows.shape[-1:], eps=eps).view(x.shape)
    return summed, normed * scale.double() + shift.double()


@pytest.mark.parametrize("x_dtype, dtype", [(torch.float32, torch.float32), (torch.float32, torch.bfloat16),
                                            (torch.bfloat16, torch.bfloat16), (torch.float64, torch.float64)])
def test_residual_norm(make, close, x_dtype, dtype):
    x, y = make(2, 50, 3, 16, dtype=x_dtype), make(2, 50, 3, 16, dtype=dtype)
    gate, scale, shift = modulation(make)
    want_x, want = residual_norm(x, y, gate, scale, shift, 2.0**-17)
    out = torch.ops.vsa.residual_norm(x, y, gate, scale, shift, 2.0**-17)
    assert x.dtype == x_dtype and out.dtype == dtype
    close(x, want_x.double(), roundings=1)
    close(out, want)


def test_residual_norm_without_its_parts(make, close):
    x, y = make(2, 50, 3, 16), make(2, 50, 3, 16)
    gate, scale, shift = modulation(make)
    before = x.clone()
    out = torch.ops.vsa.residual_norm(x, out_dtype=torch.bfloat16)
    assert torch.equal(x, before) and out.dtype == torch.bfloat16
    zero, one = torch.zeros(()), torch.ones(())
    close(out, residual_norm(x, y, zero, one, zero, 1e-6)[1])
    nothing = torch.ops.vsa.residual_norm(x, y, norm=False)
    assert nothing.shape == (0,)
    close(x, before.double() + y.double())


def test_residual_norm_takes_views_and_a_shared_modulation(make, close):
    """Every second token of a fused buffer, and one gate for the whole batch."""
    fused = make(2, 100, 3 * 4, 16)
    x, y = fused[:, ::2, :3], make(2, 50, 3, 16)
    rest = fused[:, :, 3:].clone()
    gate, scale, shift = [t.expand(2, 1, 3, 16) for t in modulation(make, batch=1)]
    want_x, want = residual_norm(x, y, gate, scale, shift, 1e-6)
    out = torch.ops.vsa.residual_norm(x, y, gate, scale, shift)
    close(x, want_x.double(), roundings=1)
    close(out, want)
    assert torch.equal(fused[:, :, 3:], rest)


def rotated(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


@pytest.mark.parametrize("norm", ["none", "head", "all_heads"])
def test_norm_rope_pool(make, close, norm):
    x, angle = make(2, TOKENS, 3, 16), make(1, TOKENS, 1, 8)
    weight = None if norm == "none" else make(1, 1, 3, 16)
    double = x.double()
    if norm != "none":
        axes = (3,) if norm == "head" else (2, 3)
        double = double * (double.square().mean(axes, keepdim=True) + 1e-6).rsqrt() * weight.double()
    cos, sin = angle.cos(), angle.sin()
    want = rotated(double, cos.double(), sin.double())
    pooled = torch.ops.vsa.norm_rope_pool(x, GRID, TILE, None, norm, 1e-6, weight, None, cos, sin)
    close(x, want)
    tiles = restatement.tile_of_token(GRID, TILE)
    means = torch.stack([want[:, tiles == i].mean(1) for i in range(int(tiles.max()) + 1)], dim=2)
    close(pooled, means)


def test_norm_rope_pool_without_means_and_with_a_given_rstd(make, close):
    x, rstd = make(2, TOKENS, 3, 16), make(2, TOKENS, 1, 1).abs()
    want = x.double() * rstd.double()
    nothing = torch.ops.vsa.norm_rope_pool(x, GRID, TILE, None, "all_heads", rstd=rstd, pool=False)
    assert nothing.shape == (0,)
    close(x, want)


@pytest.mark.parametrize("gated", [False, True])
def test_the_operator_takes_the_means(make, gated):
    """Those of norm_rope_pool select and weigh as those that it computes itself; others select other tiles."""
    q, k, v, gate = (make(1, TOKENS, 3, 16) for _ in range(4))
    gate = gate if gated else None
    q_pooled, k_pooled = (torch.ops.vsa.norm_rope_pool(x, GRID, TILE, None, "all_heads") for x in (q, k))
    layout = dict(grid=GRID, tile_shape=TILE, topk=2)
    want = vsa_torch.video_sparse_attention(q, k, v, gate, **layout)
    torch.testing.assert_close(attention_of_means(q, k, v, gate, q_pooled, k_pooled, **layout), want)
    for means in ((-q_pooled, k_pooled), (q_pooled, k_pooled.flip(2))):
        assert not torch.allclose(attention_of_means(q, k, v, gate, *means, **layout), want, atol=1e-2)
    with pytest.raises(ValueError, match=r"k_pooled: expected f32"):
        attention_of_means(q, k, v, gate, q_pooled, k_pooled[:, :, 1:], **layout)


def arguments(make, name, requires_grad=False):
    x = make(2, TOKENS, 3, 16, requires_grad=requires_grad)
    if name == "residual_norm":
        return x, make(2, TOKENS, 3, 16), *modulation(make)
    return x, GRID, TILE, None, "head", 1e-6, make(1, 1, 3, 16)


NAMES = ["residual_norm", "norm_rope_pool"]


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(make, name):
    torch.library.opcheck(getattr(torch.ops.vsa, name).default, arguments(make, name))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", NAMES)
def test_compile_without_a_break(make, name, backend):
    """What is computed before and after the call in the same graph sees x as it was and as it is."""
    torch._dynamo.reset()
    operator, (x, *others) = getattr(torch.ops.vsa, name), arguments(make, name)

    def block(x):
        x = x * 2
        before = x + 1
        result = operator(x, *others)
        return before, x - 1, result

    with torch.no_grad():
        for got, want in zip(torch.compile(block, fullgraph=True, backend=backend)(x), block(x)):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_is_refused_by_name(make, name):
    operator = getattr(torch.ops.vsa, name)
    x, *others = arguments(make, name, requires_grad=True)
    with pytest.raises(NotImplementedError, match=rf"^\[{name}\] x: expected requires_grad=False"):
        operator(x, *others)
    with torch.no_grad():
        operator(x, *others)
    with torch.inference_mode():
        operator(*arguments(make, name))
    x, *others = arguments(make, name)
    others[-1].requires_grad_()
    last = {"residual_norm": "shift", "norm_rope_pool": "weight"}[name]
    with pytest.raises(NotImplementedError, match=rf"^\[{name}\] {last}: expected requires_grad=False"):
        operator(x, *others)


def test_what_backward_needs_of_x_is_not_changed_unseen(make):
    leaf = make(2, 50, 3, 16, requires_grad=True)
    x = make(2, 50, 3, 16)
    product = leaf * x
    torch.ops.vsa.residual_norm(x)  # only read
    torch.autograd.grad(product.sum(), leaf, retain_graph=True)
    torch.ops.vsa.residual_norm(x, make(2, 50, 3, 16))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(product.sum(), leaf)


def test_wrong_arguments_are_named(make):
    x, y, gate, *_ = arguments(make, "residual_norm")
    with pytest.raises(ValueError, match=r"^\[residual_norm\] y: expected"):
        torch.ops.vsa.residual_norm(x, norm=False)
    with pytest.raises(ValueError, match=r"^\[residual_norm\] y: expected f32.*\[2,3,210,16\], got f32 \[2,3,209,16\]"):
        torch.ops.vsa.residual_norm(x, y[:, 1:])
    with pytest.raises(ValueError, match=r"^\[residual_norm\] gate: expected 4 axes"):
        torch.ops.vsa.residual_norm(x, y, gate[0])
    with pytest.raises(ValueError, match=r"^\[residual_norm\] out: expected f32"):
        torch.ops.vsa.residual_norm(x, y, out_dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"^\[norm_rope_pool\] norm: expected none, head or all_heads, got rms"):
        torch.ops.vsa.norm_rope_pool(x, GRID, TILE, None, "rms")
    assert vsa_torch.num_tiles(GRID) == torch.ops.vsa.norm_rope_pool(x, GRID, TILE, None, "none").shape[2]


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_on_cuda_as_on_the_cpu(make, close, name):
    x, *others = arguments(make, name)
    if name == "residual_norm":
        x, others = make(2, TOKENS, 3, 64), [make(2, TOKENS, 3, 64, dtype=torch.bfloat16),
                                             *modulation(make, head_dim=64)]
    else:
        x, others[-1] = make(2, TOKENS, 3, 64, dtype=torch.bfloat16), make(1, 1, 3, 64)
    there = [value.cuda() if isinstance(value, torch.Tensor) else value for value in (x, *others)]
    operator = getattr(torch.ops.vsa, name)
    want, got = operator(x, *others), operator(*there)
    assert got.is_cuda and got.dtype == want.dtype
    close(there[0].cpu(), x.double(), roundings=2)
    close(got.cpu(), want.double(), roundings=8)
