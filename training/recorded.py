"""Records a function's GPU work once for each key and replays it.

A training step is thousands of small kernels, which Python starts more slowly than a GPU runs them.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

_WARM_UP_CALLS = 3  # compile, pick algorithms and fill caches; none of these may be recorded


class Recorded:
    """`function(*inputs, key)` as a CUDA graph a key. The inputs' shapes never change, the outputs
    are overwritten by the next call, and the function must not wait for the device."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]):
        self._function = function
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}
        self._inputs: tuple[Tensor, ...] = ()
        self._pool = torch.cuda.graph_pool_handle()  # one memory for all: they never run at once

    def __call__(self, *inputs_and_key) -> tuple[Tensor, ...]:
        *inputs, key = inputs_and_key
        if not self._inputs:
            self._inputs = tuple(t.clone() for t in inputs)
        for ours, theirs in zip(self._inputs, inputs, strict=True):
            ours.copy_(theirs)
        if key not in self._graphs:
            self._graphs[key] = self._record(key)
        graph, outputs = self._graphs[key]
        graph.replay()
        return outputs

    def _record(self, key: Hashable) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_CALLS):
                self._function(*self._inputs, key)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = self._function(*self._inputs, key)
        return graph, outputs
