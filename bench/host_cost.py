"""Microseconds of the host that a call of the PyTorch operator takes on CUDA, without waiting for the GPU.

    PYTHONPATH=build/site python bench/host_cost.py

It prints one line of JSON for every shape and pass. `call_us` has the median and the least over rounds of 30 calls, without
a synchronisation within a round. If the GPU takes longer than the host, it falls behind; its driver queues about a thousand
kernels before it makes the host wait, so rounds are short. `parts_us` has the parts of the same call: `python` is the
function without the operator, `operator` is torch.ops.vsa.inference below autograd, and `every_output` is
torch.ops.vsa.video_sparse_attention, which is used by calls that need more than the output.
"""

import argparse
import json
import statistics
import time

import torch

import vsa_torch
from vsa_torch import _inference, _registration

SHAPES = {"1x256x12x128": (4, 8, 8), "1x32768x12x128": (8, 64, 64)}


def per_call_us(call, rounds, calls):
    """The median and the least over the rounds."""
    for _ in range(10):
        call()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return {"median": round(statistics.median(times), 1), "least": round(min(times), 1)}


def python_us(call, rounds, calls):
    """The function without the operator: what it would have given is given at once."""
    result = call()
    real = _inference.call
    _inference.call = lambda *arguments: result
    try:
        return per_call_us(call, rounds, calls)
    finally:
        _inference.call = real


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--calls", type=int, default=30, help="in a round")
    how = parser.parse_args()
    where = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
    for name, grid in SHAPES.items():
        shape = [int(extent) for extent in name.split("x")]
        query, key, value, gate, dout = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(5))
        leaves = [tensor.clone().requires_grad_() for tensor in (query, key, value, gate)]

        def forward():
            return vsa_torch.video_sparse_attention(query, key, value, gate, grid=grid, sparsity=0.875)

        def bare():
            return vsa_torch.video_sparse_attention(query, key, value, grid=grid, sparsity=0.875)

        def backward():
            out = vsa_torch.video_sparse_attention(*leaves, grid=grid, sparsity=0.875)
            torch.autograd.grad(out, leaves, dout)

        topk = vsa_torch.topk_from_sparsity(0.875, vsa_torch.num_tiles(grid))
        options = f"{' '.join(map(str, grid))} 4 4 4 {topk} none 0.0 1.0 none"

        def operator():
            return _registration.below_autograd(torch.ops.vsa.inference.default,
                                                (query, key, value, gate, None, options))

        def every_output():
            return _registration.below_autograd(
                torch.ops.vsa.video_sparse_attention.default,
                (query, key, value, gate, None, 0.0, 1.0, grid, (4, 4, 4), topk, None, [], [], [], "none", False))

        parts = {"python": python_us(forward, how.rounds, how.calls)["median"],
                 "operator": per_call_us(operator, how.rounds, how.calls)["median"],
                 "every_output": per_call_us(every_output, how.rounds, how.calls)["median"]}
        for which, call in (("forward", forward), ("forward, no gate", bare), ("forward and backward", backward)):
            row = {"shape": name, "pass": which, "call_us": per_call_us(call, how.rounds, how.calls)}
            if which == "forward":
                row["parts_us"] = parts
            print(json.dumps(row | where), flush=True)


if __name__ == "__main__":
    main()
