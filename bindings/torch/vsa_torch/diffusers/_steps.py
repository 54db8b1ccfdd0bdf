"""Which run and which step a call of the transformer belongs to, found without waiting for a GPU where that can be.

In this order: from vsa_step; from the pipeline, which enters the transformer's cache_context in its loop; from the
place of the timestep in a table of timesteps, `scheduler.timesteps`, of which it is a view; from the timestep's value,
which falls from step to step.
"""

import math
import threading
from dataclasses import dataclass

import torch

_LOCK = threading.Lock()
_MAX_TABLES = 16  # runs that go on at the same time on one model
_MAX_THREADS = 64


@dataclass(frozen=True)
class Place:
    """A step of a run. Runs of a model are numbered in the order of their beginning. Where both are None, `timestep`
    is a tensor that tells them, and reading it would wait for a GPU."""

    run: int | None
    step: int | None
    timestep: torch.Tensor | None = None


class Falling:
    """Counts steps by timesteps that fall: an equal one is the other half of guidance, a higher one a new run."""

    def __init__(self, run=None, step=0):
        self.run, self.step, self.calls = run, step, 0
        self.last = None if run is None else math.inf

    def observe(self, timestep, new_run):
        """(run, step) of a call with that timestep; `new_run` gives the next run's number."""
        if self.last is not None and timestep == self.last:
            self.calls += 1
            # Guidance has two halves. A third call at the first timestep is a run of one step again.
            if self.step == 0 and self.calls > 2:
                self.run = new_run()
        else:
            begins = self.last is None or timestep > self.last
            self.run, self.step = (new_run(), 0) if begins else (self.run, self.step + 1)
            self.last, self.calls = timestep, 1
        return self.run, self.step


@dataclass(eq=False)
class _Table:
    """The table of timesteps of a run. It keeps the memory alive, so that no later table gets the same address."""

    timesteps: torch.Tensor
    version: int | None  # of its memory; None where it is written again and again, and is no table
    run: int
    first: int  # index of the run's first step
    index: int
    calls: int = 1


class Steps:
    """The current steps of the runs of a model. If several runs go on at once, each has its own table or thread."""

    def __init__(self):
        self._num_runs = 0
        self._tables = []  # the one used last is the last one
        self._falling = {}  # by thread
        self._said = {}  # by thread: (run, step, names of the calls)

    def __getstate__(self):
        """A copy of a model begins its own runs."""
        return {"_num_runs": self._num_runs, "_tables": [], "_falling": {}, "_said": {}}

    def _new_run(self):
        self._num_runs += 1
        return self._num_runs

    def said(self, step, name=None):
        """The place of a step that the caller states. A step below the last one, or step 0 again with the same name,
        begins a new run."""
        with _LOCK:
            run, last, names = _of_thread(self._said, lambda: (None, 0, ()))
            if run is None or step < last or step == last == 0 and name in names:
                run, names = self._new_run(), ()
            self._said[threading.get_ident()] = (run, step, (name,) if step != last else (*names, name))
            return Place(run, step)

    def in_table(self, timestep, first=None, order=1):
        """The place of a timestep that is a view of a table of timesteps, None if it is none.

        first   index of the run's first step, where that is known: else it is the first one that was seen
        order   entries of the table for one step
        """
        index = _index(timestep)
        if index is None:
            return None
        version = 0 if timestep.is_inference() else timestep._version
        address = timestep.untyped_storage().data_ptr()
        with _LOCK:
            table = next((t for t in self._tables if t.timesteps.untyped_storage().data_ptr() == address), None)
            if table is None:
                table = _Table(timestep.detach(), version, self._new_run(), index if first is None else first, index)
            else:
                self._tables.remove(table)
                if version != table.version and table.version is not None:
                    table.version = None
                    self._falling[threading.get_ident()] = Falling(table.run, table.index - table.first)
                table.calls = table.calls + 1 if index == table.index else 1
                at_first = first is None and index == table.first
                if index < table.index or at_first and table.calls > 2:
                    table.run, table.first = self._new_run(), index if first is None else first
                table.index = index
            self._tables = [*self._tables, table][-_MAX_TABLES:]
            return None if table.version is None else Place(table.run, (index - table.first) // order)

    def of(self, timestep, needed):
        """The place of a call with that timestep: [B], or [B, S] with one for every token.

        needed  whether the step must be known now; else it is not read from a device
        """
        place = self.in_table(timestep) if _elements(timestep) > 1 else None
        if place is not None:
            return place
        on_host = timestep.device.type == "cpu"
        capturing = timestep.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if capturing and needed:
            raise ValueError("[enable_vsa] timestep: expected a known step while a CUDA graph is captured, got a "
                             "timestep on the device, which cannot be read then; capture inside "
                             "vsa_torch.diffusers.vsa_step(model, step)")
        # A tensor without data (meta, FakeTensorMode) has no value to read, and one inside torch.vmap has many.
        if capturing or timestep.device.type == "meta" or not _is_plain(timestep) and not needed:
            return Place(None, 0)
        highest = timestep.detach().amax()
        if not on_host and not needed:
            return Place(None, None, highest)
        with _LOCK:
            falling = _of_thread(self._falling, Falling)
        value = float(highest)
        with _LOCK:
            return Place(*falling.observe(value, self._new_run))


def _of_thread(states, make):
    """The state of this thread, made if there is none; the oldest states are dropped."""
    thread = threading.get_ident()
    if thread not in states:
        while len(states) >= _MAX_THREADS:
            del states[next(iter(states))]
        states[thread] = make()
    return states[thread]


def _is_plain(tensor):
    """Whether it is a plain tensor with memory: no subclass, and not wrapped by a transform of torch.func."""
    return type(tensor) is torch.Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _elements(tensor):
    """How many elements the memory has that the tensor is a view of; 0 where that is not plain memory."""
    if not _is_plain(tensor) or tensor.device.type == "meta" or tensor.layout != torch.strided:
        return 0
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _index(timestep):
    """The index in its memory of the one element that a tensor shows, however often; None where it shows several."""
    one = all(extent == 1 or stride == 0 for extent, stride in zip(timestep.shape, timestep.stride()))
    return timestep.storage_offset() if _elements(timestep) and timestep.numel() and one else None
