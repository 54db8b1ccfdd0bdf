"""What a call costs the host beside the work itself: plans that are kept, and the steps of Python."""

import resource
import sys
import threading
import time

import pytest
import torch

import vsa_torch

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


@pytest.mark.parametrize("requires_grad, most", [(False, 50), (True, 80)])
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
