"""What ran in a model with VSA: the route, the kept share and the time of every layer and step."""

import time
from dataclasses import dataclass, field

import torch


class Stopwatch:
    """Time from its making to stop(). A GPU runs behind the host, so there its own clock counts, and whoever asks for
    the seconds waits for it. Inside the capture of a CUDA graph there is no time to take."""

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
        """Of the attention with its projections; None if it was captured into a CUDA graph."""
        return self.time.seconds


@dataclass
class VsaReport:
    """The rows of the last run, and how many gates were loaded."""

    num_gates: int = 0
    rows: list = field(default_factory=list)

    def add(self, **row):
        self.rows.append(Row(**row))

    def clear(self):
        self.rows.clear()

    @property
    def kept(self):
        """Mean kept share of all rows; 1 without any."""
        return sum(row.kept for row in self.rows) / len(self.rows) if self.rows else 1.0

    def __str__(self):
        lines = [f"VSA: {len(self.rows)} attentions, {self.kept:.1%} of the tile pairs kept, "
                 f"{self.num_gates} gates"]
        for step in sorted({row.step for row in self.rows}):
            rows = [row for row in self.rows if row.step == step]
            dense = sorted({row.layer for row in rows if row.route == "dense"})
            times = [row.seconds for row in rows if row.seconds is not None]
            time = f", {sum(times):.3f} s" if times else ""
            kept = sum(row.kept for row in rows) / len(rows)
            lines.append(f"  step {step}: kept {kept:.1%}, dense layers {dense}{time}")
        return "\n".join(lines)
