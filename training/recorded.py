"""Records a function's GPU work once for each key and for each shapes of inputs, and replays it.

A training step is thousands of small kernels, which Python starts more slowly than a GPU runs them.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

_WARM_UP_CALLS = 3  # compile, pick algorithms and fill caches; none of these may be recorded


class Recorded:
    """`function(*inputs, key)` as a CUDA graph for every key and shapes of inputs. The outputs are overwritten
    by the next call, and the function must not wait for the device."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]):
        self._function = function
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}
        self._inputs: dict[Hashable, tuple[Tensor, ...]] = {}  # by their shapes
        self._pool = torch.cuda.graph_pool_handle()  # one memory for all: they never run at once

    def __call__(self, *inputs_and_key) -> tuple[Tensor, ...]:
        *inputs, key = inputs_and_key
        shapes = tuple(t.shape for t in inputs)
        if shapes not in self._inputs:
            self._inputs[shapes] = tuple(t.clone() for t in inputs)
        kept = self._inputs[shapes]
        for ours, theirs in zip(kept, inputs, strict=True):
            ours.copy_(theirs)
        if (shapes, key) not in self._graphs:
            self._graphs[shapes, key] = self._record(kept, key)
        graph, outputs = self._graphs[shapes, key]
        graph.replay()
        return outputs

    def _record(self, inputs: tuple[Tensor, ...], key: Hashable) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_CALLS):
                self._function(*inputs, key)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = self._function(*inputs, key)
        return graph, outputs
