"""What ran in a model with VSA: the route, the kept share and the time of every layer and step."""

import itertools
import threading
import time
from dataclasses import dataclass, field

import torch

from vsa_torch.diffusers._steps import Falling, Place

_LOCK = threading.Lock()
_numbers = itertools.count(1)  # of calls in all reports: a call may be computed again with another report


class Stopwatch:
    """Time from its construction to stop(). A GPU runs behind the host, so events on the GPU measure its time, and
    reading the seconds waits for them. Inside the capture of a CUDA graph no time is measured."""

    def __init__(self, device):
        self._events = self._start = self._seconds = None
        if device.type != "cuda":
            self._start = time.perf_counter()
        elif not torch.cuda.is_current_stream_capturing():
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            self._events[0].record()

    def stop(self):
        if self._start is not None:
            self._seconds = time.perf_counter() - self._start
        elif self._events is not None:
            self._events[1].record()

    @property
    def seconds(self):
        if self._events is not None:
            self._events[1].synchronize()
            self._seconds, self._events = self._events[0].elapsed_time(self._events[1]) / 1000, None
        return self._seconds

    def __getstate__(self):
        """Events cannot be copied or saved, so a copy of a report, or of a model with one, has the seconds."""
        return {"_start": None, "_events": None, "_seconds": self.seconds}


@dataclass(frozen=True)
class Row:
    """One self-attention: with guidance a layer runs twice in a step."""

    step: int
    layer: int
    route: str  # "vsa", or "dense": all tiles
    kept: float  # pairs of tiles that the fine stage computed, of all
    time: Stopwatch = field(repr=False)

    @property
    def seconds(self):
        """Seconds of the attention with its projections; None if it was captured into a CUDA graph."""
        return self.time.seconds


@dataclass
class _Call:
    """One call of a transformer: what its layers did, by layer."""

    place: Place
    thread: int
    layers: dict = field(default_factory=dict)


class VsaReport:
    """What ran in the run of a model that began last, and how many gates the model has.

    num_gates  gates of all its layers
    rows       a Row for every attention of the run, in the order of the calls. Of a run of more than 1024 calls
               of the transformer, of the last 1024. Layers that run inside torch.compile leave none
    kept       mean kept share of all rows; 1 without any

    Reading rows, and printing the report, waits for a GPU.
    """

    _MAX_CALLS = 1024

    def __init__(self, num_gates=0):
        self.num_gates = num_gates
        self._calls = {}  # by number
        self._run = None

    def begin(self, place):
        """A call of a transformer begins; returns its number."""
        with _LOCK:
            number = next(_numbers)
            if place.run is not None and place.run != self._run:
                if self._run is not None and place.run < self._run:  # a run beside the last one
                    return number
                self._calls, self._run = {}, place.run
            while len(self._calls) >= self._MAX_CALLS:
                del self._calls[next(iter(self._calls))]
            self._calls[number] = _Call(place, threading.get_ident())
            return number

    def add(self, call, layer, route, kept, time):
        """What a layer did in a call. When gradient checkpointing computes the layer again, the first time counts."""
        found = self._calls.get(call)
        if found is not None:
            found.layers.setdefault(layer, (route, kept, time))

    @property
    def rows(self):
        with _LOCK:
            calls = list(self._calls.values())
        placed, falling, runs = [], {}, itertools.count(1)
        for call in calls:
            run, step = call.place.run, call.place.step
            if call.place.timestep is not None:
                counter = falling.setdefault(call.thread, Falling())
                run, step = counter.observe(float(call.place.timestep), lambda: ("read", next(runs)))
            placed.append((run, step, call))
        last = placed[-1][0] if placed else None
        return [Row(step, layer, route, kept, time) for run, step, call in placed if run == last
                for layer, (route, kept, time) in list(call.layers.items())]

    @property
    def kept(self):
        rows = self.rows
        return sum(row.kept for row in rows) / len(rows) if rows else 1.0

    def __str__(self):
        all_rows = self.rows
        lines = [f"VSA: {len(all_rows)} attentions, {self.kept:.1%} of the tile pairs kept, {self.num_gates} gates"]
        for step in sorted({row.step for row in all_rows}):
            rows = [row for row in all_rows if row.step == step]
            dense = sorted({row.layer for row in rows if row.route == "dense"})
            times = [row.seconds for row in rows if row.seconds is not None]
            time = f", {sum(times):.3f} s" if times else ""
            kept = sum(row.kept for row in rows) / len(rows)
            lines.append(f"  step {step}: kept {kept:.1%}, dense layers {dense}{time}")
        return "\n".join(lines)

    __repr__ = __str__
