"""What a call costs the host beside the work itself: plans that are kept, and the steps of Python."""

import resource
import sys
import threading
import time

import pytest
import torch
import torch.fx.experimental.proxy_tensor

import vsa_torch
from vsa_torch import _inference, attention

TILE = (4, 4, 4)


def refused(grid):
    """Seconds of a call that makes the plan of `grid`, then finds that the tensor is too short for it."""
    x = torch.ones(1, 64, 1, 8)
    start = time.perf_counter()
    with pytest.raises(ValueError, match="x: expected"):
        torch.ops.vsa.tile(x, grid, TILE, [])
    return time.perf_counter() - start


def test_p17_the_plan_of_a_recent_shape_is_not_built_again():
    grid = (64, 255, 256)  # 4 million tokens: 20 ms to build, some microseconds to find
    first = refused(grid)
    assert min(refused(grid) for _ in range(5)) < first / 10


def test_p17_a_changed_shape_is_another_plan(make):
    x = make(1, 240, 1, 8)
    for grid, prefix in (((4, 6, 10), []), ((4, 10, 6), []), ((6, 4, 10), []), ((5, 6, 7), [30]), ((5, 6, 7), [10, 20]),
                         ((5, 6, 7), [20, 10]), ((4, 6, 10), [])):
        tiled = vsa_torch.tile(x, grid=grid, prefix=prefix)
        assert torch.equal(vsa_torch.untile(tiled, grid=grid, prefix=prefix), x)
        lengths = vsa_torch.tile_lengths(grid, prefix=prefix)
        assert (tiled.view(len(lengths), 64, 8).abs().amax(2) > 0).sum(1).tolist() == lengths


def test_p17_threads_share_the_plans(make):
    """More shapes than are kept, from several threads at once."""
    grids = [(f, h, w) for f in (1, 3, 5) for h in (2, 6, 7) for w in (3, 4, 9, 10)]
    inputs = {grid: make(1, grid[0] * grid[1] * grid[2], 1, 8) for grid in grids}
    wrong = []

    def work(order):
        for grid in order:
            tiled = vsa_torch.tile(inputs[grid], grid=grid)
            if not torch.equal(vsa_torch.untile(tiled, grid=grid), inputs[grid]):
                wrong.append(grid)

    threads = [threading.Thread(target=work, args=(grids[i:] + grids[:i],)) for i in (0, 9, 18, 27)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_p17_what_is_kept_is_bounded():
    """400 plans of 1 MiB each: all of them would be 400 MiB, and 16 MiB are kept."""
    refused((16, 128, 128))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for width in range(100, 500):
        refused((16, 128, 128 * 128 // width, width)[:1] + (2**14 // width, width))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 * 1024, f"{grown} KiB"


@pytest.mark.parametrize("requires_grad, most", [(False, 12), (True, 80)])
def test_p17_steps_of_python_in_a_call(make, requires_grad, most):
    """Functions of Python that a call enters. Its time on a shared machine cannot be held to a bound; their number can,
    and each takes some 0.2 us. Autograd takes 30 of them."""
    inputs = [make(1, 210, 2, 16, requires_grad=requires_grad) for _ in range(4)]

    def call():
        return vsa_torch.video_sparse_attention(*inputs, grid=(5, 6, 7), sparsity=0.6)

    call()
    entered = []
    sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_name))
    try:
        call()
    finally:
        sys.setprofile(None)
    assert len(entered) <= most, entered


def test_p17_a_gradient_that_nobody_asks_for_is_not_made_up(make):
    """lse, say, has none; and where only lse is used, there is nothing to compute."""
    query = make(1, 210, 2, 16, requires_grad=True)
    out, lse = vsa_torch.video_sparse_attention(query, query, query, grid=(5, 6, 7), topk=3, return_lse=True)
    assert out.requires_grad and not lse.requires_grad
    coarse_out, lut, count = vsa_torch.coarse_select(query, query, query, grid=(5, 6, 7), topk=3)
    assert coarse_out.requires_grad and not lut.requires_grad and not count.requires_grad


# --- the short way -------------------------------------------------------------------------------

GRID = (5, 6, 7)


@pytest.fixture
def entered(monkeypatch):
    """The texts with which torch.ops.vsa.inference was called."""
    texts = []
    real = _inference.call
    monkeypatch.setattr(_inference, "call", lambda *arguments: texts.append(arguments[-1]) or real(*arguments))
    return texts


def every_output(*tensors, **options):
    """The same from the operator that has all outputs."""
    return vsa_torch.video_sparse_attention(*tensors, return_lse=True, **options)[0]


@pytest.mark.parametrize("options", [
    {"topk": 3}, {"sparsity": 0.6}, {"topk": 3, "scale": 0.3}, {"topk": 2, "coarse_rounding": "bfloat16"},
    {"topk": 3, "tile_shape": (2, 3, 4)}, {"topk": 3, "gate_coarse": 0.5, "gate_fine": -1e-7}, {"topk": 1, "gate_fine": 0.0},
    {"topk": 3, "scale": 1 / 3}], ids=str)
def test_p17_the_short_way_gives_the_same_bits(make, entered, options):
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        for batch in (1, 2):
            tensors = [make(batch, 210, heads, 16).to(dtype) for heads in (4, 2, 2)]
            for _ in range(2):
                got = vsa_torch.video_sparse_attention(*tensors, grid=GRID, **options)
                assert torch.equal(got, every_output(*tensors, grid=GRID, **options))
    assert len(entered) == 12 and len(set(entered)) == 1


@pytest.mark.parametrize("prefix", [None, [], (), [30], (10, 20), (20, 10)], ids=str)
def test_p17_the_short_way_with_a_prefix_and_gates(make, entered, prefix):
    length = 210 + sum(prefix or ())
    tensors = [make(1, length, 2, 16) for _ in range(5)]
    options = dict(grid=GRID, topk=3, prefix=prefix, gate_fine=tensors.pop())
    for _ in range(2):
        assert torch.equal(vsa_torch.video_sparse_attention(*tensors, **options), every_output(*tensors, **options))
    assert len(entered) == 2


def test_p17_a_list_that_changes_is_followed(make, entered):
    prefix = [10, 20]
    x = make(1, 240, 2, 16)
    first = vsa_torch.video_sparse_attention(x, x, x, grid=GRID, topk=3, prefix=prefix)
    prefix[:] = [20, 10]
    second = vsa_torch.video_sparse_attention(x, x, x, grid=GRID, topk=3, prefix=prefix)
    assert not torch.equal(first, second) and len(set(entered)) == 2
    prefix.append(1)
    with pytest.raises(ValueError, match="query: expected a sequence of 241, as grid with prefix says"):
        vsa_torch.video_sparse_attention(x, x, x, grid=GRID, topk=3, prefix=prefix)


WRONG_AFTER_A_CALL = {
    "topk": ({"topk": True}, ValueError, "topk: expected 1 to 8"),
    "topk of a float": ({"topk": 1.0}, ValueError, "topk: expected 1 to 8"),
    "many topk": ({"topk": 9}, ValueError, "topk: expected 1 to 8"),
    "both": ({"sparsity": 0.5}, ValueError, "expected either topk or sparsity, got both"),
    "sparsity": ({"topk": None, "sparsity": True}, TypeError, "sparsity: expected a number"),
    "grid": ({"grid": (5.0, 6, 7)}, ValueError, "grid: expected three positive ints"),
    "long grid": ({"grid": (5, 6, 7, 1)}, ValueError, "grid: expected three positive ints"),
    "tile_shape": ({"tile_shape": (4, 4, 4.0)}, ValueError, "tile_shape: expected three positive ints"),
    "scale": ({"scale": True}, TypeError, "scale: expected a number"),
    "infinite scale": ({"scale": float("inf")}, ValueError, "scale: expected a finite number"),
    "gate": ({"gate_fine": True}, TypeError, "gate_fine: expected a number"),
    "rounding": ({"coarse_rounding": "half"}, ValueError, "coarse_rounding: expected none or bfloat16"),
    "rounding of a list": ({"coarse_rounding": ["none"]}, ValueError, "coarse_rounding: expected none or bfloat16"),
    "prefix": ({"prefix": [True]}, ValueError, "prefix: expected lengths of segments"),
    "return_lse": ({"return_lse": 0}, TypeError, "return_lse: expected True or False"),
    "tile lengths": ({"kv_tile_len": [64]}, ValueError, "kv_tile_len: expected none with grid"),
}


@pytest.mark.parametrize("name", WRONG_AFTER_A_CALL)
def test_p17_wrong_arguments_after_a_right_call(make, name):
    """Also those that Python calls equal to the right ones: True == 1 == 1.0."""
    change, error, message = WRONG_AFTER_A_CALL[name]
    x = make(1, 210, 2, 16)
    for topk, scale, gate in ((1, 1.0, 1.0), (1, None, None)):
        right = dict(grid=GRID, topk=topk, scale=scale, gate_fine=gate)
        vsa_torch.video_sparse_attention(x, x, x, **right)
        with pytest.raises(error, match=message):
            vsa_torch.video_sparse_attention(x, x, x, **(right | change))


def test_p17_a_tensor_that_is_changed_in_place_after_a_call(make, entered):
    x = make(1, 210, 2, 16)
    key = x.clone()

    def call():
        return vsa_torch.video_sparse_attention(x, key, x, grid=GRID, topk=3)

    before = call()
    key.as_strided_((1, 210, 2, 16), (0, 16, 210 * 16, 1))
    assert torch.equal(call(), every_output(x, key.clone(), x, grid=GRID, topk=3))
    key.as_strided_((1, 210, 2, 16), (6720, 32, 1, 2))
    with pytest.raises(ValueError, match="key: expected the last axis contiguous, got stride 2"):
        call()
    key.resize_(1, 209, 2, 16)
    with pytest.raises(ValueError, match="key: expected a sequence of 210, as grid says"):
        call()
    key.data = x.double()
    with pytest.raises(ValueError, match="key: expected float32"):
        call()
    key.data = x.clone()
    assert torch.equal(call(), before) and len(entered) == 6


def test_p17_numbers_that_are_tensors_are_read_in_every_call(make, entered):
    x = make(1, 210, 2, 16)
    topk = torch.tensor(1)
    frames = torch.tensor(5)
    one = vsa_torch.video_sparse_attention(x, x, x, grid=(frames, 6, 7), topk=topk)
    topk += 7
    assert not torch.equal(vsa_torch.video_sparse_attention(x, x, x, grid=(frames, 6, 7), topk=topk), one)
    frames += 1
    with pytest.raises(ValueError, match="query: expected a sequence of 252"):
        vsa_torch.video_sparse_attention(x, x, x, grid=(frames, 6, 7), topk=topk)
    assert not entered


def test_p17_who_does_not_go_the_short_way(make, entered):
    x = make(1, 210, 2, 16)
    leaf = x.clone().requires_grad_()

    def call(query=x, **options):
        return vsa_torch.video_sparse_attention(query, x, x, options.pop("gate_coarse", None), grid=GRID, topk=3, **options)

    call()
    assert len(entered) == 1
    assert call(leaf).requires_grad and call(gate_coarse=leaf).requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        assert call().dtype == torch.bfloat16
    meta = x.to("meta")
    assert vsa_torch.video_sparse_attention(meta, meta, meta, grid=GRID, topk=3).is_meta
    torch.func.vmap(lambda query: call(query))(x[None])
    graph = torch.fx.experimental.proxy_tensor.make_fx(call)(x)
    assert torch.ops.vsa.video_sparse_attention.default in [node.target for node in graph.graph.nodes]
    assert torch.compile(call, backend="eager")(x).shape == x.shape
    assert type(call(torch.nn.Parameter(x))) is torch.Tensor
    assert len(entered) == 1
    with torch.no_grad():
        assert not call(leaf).requires_grad
    with torch.inference_mode():
        assert call(x.clone()).is_inference()
    assert len(entered) == 3


def test_p17_threads_and_more_arguments_than_are_kept(make):
    x = make(1, 210, 2, 16)
    scales = [1 / (3 + i) for i in range(300)]
    want = {scale: every_output(x, x, x, grid=GRID, topk=2, scale=scale) for scale in scales[::60]}
    wrong = []

    def work(start):
        for scale in scales[start:] + scales[:start]:
            out = vsa_torch.video_sparse_attention(x, x, x, grid=GRID, topk=2, scale=scale)
            if scale in want and not torch.equal(out, want[scale]):
                wrong.append(scale)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 90, 180)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = attention._options.cache_info()
    assert not wrong and kept.currsize <= kept.maxsize == 256


@pytest.mark.parametrize("options", ["", "5 6 7", "5 6 7 4 4 4 0 x none 0.0 1.0 none",
                                     "5 6 7 4 4 4 0 3 none 0.0 1.0 half", "5 6 7 4 4 4 0 3 none 0.0 1.0 none 1.5",
                                     "5 6 7 4 4 4 0 9 none 0.0 1.0 none", "5 6 7 4 4 4 3 3 none 0.0 1.0 none",
                                     "99999999999999999999 6 7 4 4 4 0 3 none 0.0 1.0 none"])
def test_p17_texts_that_are_not_the_operators(make, options):
    x = make(1, 210, 2, 16)
    with pytest.raises(ValueError):
        torch.ops.vsa.inference(x, x, x, None, None, options)


def test_p17_the_operator_of_the_short_way_has_no_gradient(make):
    x = make(1, 210, 2, 16)
    arguments = (x, x, x, x, None, "5 6 7 4 4 4 0 3 none 0.0 1.0 none")
    torch.library.opcheck(torch.ops.vsa.inference.default, arguments)
    assert torch._C._dispatch_has_kernel_for_dispatch_key("vsa::inference", "CUDA")
    out = torch.ops.vsa.inference(x.requires_grad_(), *arguments[1:])
    with pytest.raises(NotImplementedError, match="use video_sparse_attention"):
        out.sum().backward()
