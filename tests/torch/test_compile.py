"""Numbers in compiled functions: a result follows its arguments, in one graph or in one for each value, without a break."""

import fractions
import math

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import vsa_torch

GRID = (5, 6, 7)
SHARES = [0.1, 0.5, 0.7, 0.3, -0.5, 1.0]


def attend(x, *gate, **how):
    return vsa_torch.video_sparse_attention(x, x, x, *gate, **({"grid": GRID} | how))


def listed(x, **how):
    """block_sparse_attention over the list that coarse_select makes of the grid."""
    _, lut, count = vsa_torch.coarse_select(x, x, x, grid=GRID, topk=3)
    return vsa_torch.block_sparse_attention(x, x, x, lut, count, **({"grid": GRID} | how))


def tiled(x, lengths):
    """A sequence in tile order, of as many tiles as there are lengths."""
    padded = x.repeat(1, 3, 1, 1)[:, : 64 * len(lengths)]
    return vsa_torch.video_sparse_attention(padded, padded, padded, q_tile_len=lengths, topk=2)


GRIDS = [(5, 6, 7), (6, 5, 7), (7, 6, 5), (5, 7, 6), (3, 7, 10)]
PREFIXES = [[30], [20], [5], [60]]  # one segment: another number of them is another graph, as it should be

# name: (function of x and a number, the numbers, whether one graph serves all after the first)
NUMBERS = {
    "sparsity": (lambda x, s: attend(x, sparsity=s), SHARES, False),
    "scale": (lambda x, s: attend(x, topk=3, scale=s), [0.1, 0.5, -0.7], False),
    "int_scale": (lambda x, s: attend(x, topk=3, scale=s), [1, 2, 3], False),
    "gate_coarse": (lambda x, s: attend(x, s, topk=3), [0.1, 0.5, 0.0], False),
    "gate_fine": (lambda x, s: attend(x, x, topk=3, gate_fine=s), [0.1, 0.5, 0.0], False),
    "all_at_once": (lambda x, s: attend(x, s, sparsity=s, scale=s, gate_fine=s), [0.1, 0.5, 0.8], False),
    "topk": (lambda x, s: attend(x, topk=s), [1, 2, 3, 5, 8], True),
    "grid": (lambda x, s: attend(x, grid=s, topk=2), GRIDS, True),
    "grid_and_sparsity": (lambda x, s: attend(x, grid=s, sparsity=0.7), GRIDS, True),
    "prefix": (lambda x, s: attend(x[:, : 150 + s[0]], grid=(5, 6, 5), topk=2, prefix=s), PREFIXES, True),
    "q_tile_len": (tiled, [[64, 64, 60], [1, 2, 3], [64, 0, 5], [9, 9, 9]], True),
    "coarse_select_sparsity": (lambda x, s: vsa_torch.coarse_select(x, x, x, grid=GRID, sparsity=s), SHARES, False),
    "coarse_select_scale": (lambda x, s: vsa_torch.coarse_select(x, x, x, grid=GRID, topk=2, scale=s), [0.1, 0.5, 2.0],
                            False),
    "coarse_select_topk": (lambda x, s: vsa_torch.coarse_select(x, x, x, grid=GRID, topk=s), [1, 2, 3, 8], True),
    "block_scale": (lambda x, s: listed(x, scale=s), [0.1, 0.5, 0.7], False),
    "tile": (lambda x, s: vsa_torch.tile(x, grid=s), GRIDS, True),
    "untile": (lambda x, s: vsa_torch.untile(vsa_torch.tile(x, grid=s), grid=s), GRIDS, True),
    "topk_from_sparsity": (lambda x, s: x * vsa_torch.topk_from_sparsity(s, 10), SHARES, False),
    "num_tiles": (lambda x, s: x * vsa_torch.num_tiles(s), GRIDS, True),
}


def expect_same(got, want, exact=True):
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (got, want)], strict=True):
        assert torch.equal(a, b) if exact else torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_p14_a_number_is_followed(make, name, dynamic):
    torch._dynamo.reset()
    function, values, one_graph = NUMBERS[name]
    x = make(1, 210, 2, 16)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(function, fullgraph=True, backend=counter, dynamic=dynamic)
    for value in values:
        expect_same(compiled(x, value), function(x, value))
    assert not one_graph or counter.frame_count <= 3


@pytest.mark.parametrize("name", ["all_at_once", "topk", "grid_and_sparsity"])
def test_p14_inductor(make, name):
    torch._dynamo.reset()
    function, values, _ = NUMBERS[name]
    x = make(1, 210, 2, 16)
    compiled = torch.compile(function, fullgraph=True)
    for value in values:
        expect_same(compiled(x, value), function(x, value), exact=False)


def test_p14_gradients(make):
    torch._dynamo.reset()
    x = make(1, 210, 2, 16, requires_grad=True)
    compiled = torch.compile(lambda x, s, k: attend(x, x, topk=k, scale=s), fullgraph=True, backend="aot_eager")
    for s, k in ((0.1, 2), (0.5, 3), (0.7, 5)):
        got, = torch.autograd.grad(compiled(x, s, k).sin().sum(), x)
        want, = torch.autograd.grad(attend(x, x, topk=k, scale=s).sin().sum(), x)
        assert torch.equal(got, want)


def test_p14_export_with_a_symbolic_topk(make):
    class Block(torch.nn.Module):
        def forward(self, x, topk):
            return attend(x, topk=topk)

    x = make(1, 210, 2, 16)
    dynamic = {"x": None, "topk": torch.export.Dim.DYNAMIC}
    exported = torch.export.export(Block(), (x, 3), dynamic_shapes=dynamic).module()
    for topk in (2, 3, 5):
        assert torch.equal(exported(x, topk), attend(x, topk=topk))


def test_p14_make_fx_and_fake_tensors(make):
    from torch.fx.experimental.proxy_tensor import make_fx

    x = make(1, 210, 2, 16)
    graph = make_fx(lambda x: attend(x, sparsity=0.6), tracing_mode="symbolic")(x)
    assert torch.ops.vsa.video_sparse_attention.default in [node.target for node in graph.graph.nodes]
    assert torch.equal(graph(x), attend(x, sparsity=0.6))
    with torch._subclasses.FakeTensorMode():
        assert attend(torch.empty(1, 210, 2, 16), sparsity=0.6).shape == (1, 210, 2, 16)


@pytest.mark.parametrize("number", [fractions.Fraction(1, 2), "numpy.float32", "numpy.float64"])
def test_p14_other_numbers_are_numbers(make, number):
    if isinstance(number, str):
        number = getattr(pytest.importorskip("numpy"), number.removeprefix("numpy."))(0.5)
    x = make(1, 210, 2, 16)
    assert torch.equal(attend(x, number, sparsity=number, scale=number, gate_fine=number),
                       attend(x, 0.5, sparsity=0.5, scale=0.5, gate_fine=0.5))


@pytest.mark.parametrize("how", [{"topk": 3, "scale": "float32"}, {"topk": 3, "gate_fine": "float64"},
                                 {"sparsity": "float64"}, {"topk": "int64"}])
def test_p14_numpys_numbers_are_refused_by_name_in_a_graph(make, how):
    """torch.compile makes tensors of them, and reading one on the host would break the graph."""
    numpy = pytest.importorskip("numpy")
    torch._dynamo.reset()
    name, dtype = list(how.items())[-1]
    number = getattr(numpy, dtype)(1)
    with pytest.raises(Exception, match=rf"\[video_sparse_attention\] {name}: expected"):
        torch.compile(lambda x, n: attend(x, **(how | {name: n})), fullgraph=True, backend="eager")(
            make(1, 210, 2, 16), number)


S = [0.1, 0.3, 0.6, 0.8]
DERIVED = {
    "sparsity": lambda q, s: vsa_torch.video_sparse_attention(q * s, q, q, grid=GRID, sparsity=0.9 * s),
    "scale": lambda q, s: vsa_torch.video_sparse_attention(q * s, q, q, grid=GRID, topk=3, scale=0.9 * s),
    "gates": lambda q, s: vsa_torch.video_sparse_attention(q * s, q, q, s / 2, grid=GRID, topk=3, gate_fine=1 - s),
    "topk_from_sparsity": lambda q, s: vsa_torch.video_sparse_attention(
        q * s, q, q, grid=GRID, topk=vsa_torch.topk_from_sparsity(0.9 * s, 8)),
    "coarse_select": lambda q, s: vsa_torch.coarse_select(q * s, q, q, grid=GRID, sparsity=s * s),
}


@pytest.mark.parametrize("name", DERIVED)
def test_p15_a_float_that_is_computed_in_the_compiled_function(make, name):
    torch._dynamo.reset()
    q, function = make(1, 210, 2, 16), DERIVED[name]
    compiled = torch.compile(function, fullgraph=True)
    for s in S:
        expect_same(compiled(q, s), function(q, s), exact=False)


def test_p15_an_int_that_is_computed_from_a_float_outside(make):
    """docs/guide/pytorch.md: compute such an int outside; inductor may keep an older value of one computed inside."""
    torch._dynamo.reset()
    q = make(1, 210, 2, 16)

    def function(q, s, topk):
        return vsa_torch.video_sparse_attention(q * s, q, q, grid=GRID, topk=topk)

    compiled = torch.compile(function, fullgraph=True)
    for s in S:
        expect_same(compiled(q, s, math.ceil(8 * s)), function(q, s, math.ceil(8 * s)), exact=False)


def test_vmap_gives_what_a_loop_gives(make):
    x = make(3, 1, 210, 2, 16)
    got = torch.vmap(lambda x: attend(x, topk=3))(x)
    assert torch.equal(got, torch.stack([attend(item, topk=3) for item in x]))


@pytest.mark.parametrize("function", [
    lambda x: attend(x, 0.5, topk=3), lambda x: attend(x, x, topk=3, gate_fine=x),
    lambda x: attend(x, sparsity=0.5, return_lse=True)[0], lambda x: listed(x), lambda x: vsa_torch.coarse_select(x, x, x, grid=GRID, topk=3)[0],
    lambda x: vsa_torch.untile(vsa_torch.tile(x, grid=GRID) ** 2, grid=GRID)])
def test_gradients_by_torch_func(make, function):
    def loss(x):
        return (function(x) ** 2).sum()

    x = make(1, 210, 2, 16, requires_grad=True)
    want, = torch.autograd.grad(loss(x), x)
    x = x.detach()
    torch.testing.assert_close(torch.func.grad(loss)(x), want)
    out, pull = torch.func.vjp(function, x)
    torch.testing.assert_close(pull(2 * out)[0], want)
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(torch.stack([x, 2 * x]))[0], want)


@pytest.mark.parametrize("function", [lambda x: attend(x, 0.5, topk=3), lambda x: listed(x)])
def test_second_derivatives_by_torch_func_are_refused(make, function):
    with pytest.raises(NotImplementedError, match="backward. expected no second derivative"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: (function(y) ** 2).sum())(x).sum())(make(1, 210, 2, 16))
