"""The settings that enable_vsa was given, and how many tiles they keep."""

import functools
import inspect
from collections.abc import Mapping, Set
from dataclasses import dataclass

from vsa_torch import _checks
from vsa_torch.tiling import tiling_of, topk_from_sparsity


@dataclass(frozen=True)
class Plan:
    """The settings of a model. They never change: another call of enable_vsa makes another plan."""

    tile_shape: tuple
    order: str  # in which tokens are cut into tiles
    topk: int | None
    schedule: object  # sparsity by step: a tuple, whose last value holds from there on, or a function; None with topk
    dense_steps: int
    dense_layers: tuple  # ascending
    needs_step: bool  # whether what is computed depends on the step
    fused: bool  # whether the passes of _passes.py are used where they serve

    def sparsity(self, step):
        """The sparsity of a step in layers that are not dense; None where topk says it."""
        if step < self.dense_steps:
            return 0.0
        if self.schedule is None:
            return None
        if callable(self.schedule):
            return _checks.share("enable_vsa", "schedule", self.schedule(step))
        return self.schedule[min(step, len(self.schedule) - 1)]

    def kept(self, sparsity, tiles):
        """How many of the tiles `sparsity`, which is a result of Plan.sparsity, keeps."""
        return min(self.topk, tiles) if sparsity is None else topk_from_sparsity(sparsity, tiles)


def plan(tile_shape, order, sparsity, topk, schedule, dense_steps, dense_layers, fused, num_layers):
    """The arguments of enable_vsa, checked. Raises ValueError and TypeError."""
    def integer(name, value, least, most, of=""):
        return _checks.integer("enable_vsa", name, value, least, most, of)

    if not hasattr(dense_layers, "__iter__"):
        raise TypeError(f"[enable_vsa] dense_layers: expected a sequence of layers, got {dense_layers!r}")
    layers = [integer("dense_layers", layer, 0, num_layers - 1, " (layers)") for layer in dense_layers]
    schedule = _schedule(sparsity, topk, schedule)
    by_step = schedule is not None and (callable(schedule) or len(schedule) > 1)
    if callable(schedule) and not _takes_step(schedule):
        schedule, by_step = functools.partial(_without_step, schedule), False
    _checks.flag("enable_vsa", "fused", fused)
    dense_steps = integer("dense_steps", dense_steps, 0, _checks.MAX_TOKENS)
    tile_shape = tiling_of("enable_vsa", tile_shape, order)[:3]
    return Plan(tile_shape=tile_shape, order=order, schedule=schedule,
                topk=None if topk is None else integer("topk", topk, 1, _checks.MAX_TOKENS),
                dense_steps=dense_steps, dense_layers=tuple(sorted(set(layers))), needs_step=by_step or dense_steps > 0,
                fused=fused)


def _takes_step(function):
    """Whether a schedule is a function of the step; one without arguments returns the present sparsity."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C have no signature
        return True
    takes_step = bool(signature.parameters)
    try:
        signature.bind(*([0] if takes_step else []))
    except TypeError:
        raise TypeError(f"[enable_vsa] schedule: expected a function of the step alone, got one of {signature}") from None
    return takes_step


def _without_step(function, step):
    return function()


def _schedule(sparsity, topk, schedule):
    """Sparsity by step, a tuple whose last value holds on, or a function; None where topk is given."""
    given = [name for name, value in (("sparsity", sparsity), ("topk", topk), ("schedule", schedule))
             if value is not None]
    if len(given) != 1:
        raise ValueError(f"[enable_vsa] sparsity: expected one of sparsity, topk and schedule, got "
                         f"{' and '.join(given) or 'none'}")
    if topk is not None or callable(schedule):
        return schedule
    if sparsity is not None:
        return (_checks.share("enable_vsa", "sparsity", sparsity),)
    # A dict could mean sparsities by step, but iterating gives its keys; a set has no order.
    if isinstance(schedule, (str, bytes, Mapping, Set)) or not hasattr(schedule, "__iter__"):
        raise TypeError(f"[enable_vsa] schedule: expected sparsities or a function, got {schedule!r}")
    steps = tuple([_checks.share("enable_vsa", "schedule", value) for value in schedule])
    if not steps:
        raise ValueError("[enable_vsa] schedule: expected at least one sparsity, got none")
    return steps
