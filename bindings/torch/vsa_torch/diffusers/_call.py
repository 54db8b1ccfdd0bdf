"""What a call of a transformer depends on, and how each block gets it.

WanTransformer3DModel.forward asks its `rope` for the rotary embedding and passes the result unchanged to every block
and its self-attention. So a hook on `rope` appends the facts of the call, and the tables for norm_rope_pool. They are
arguments of the blocks, so it does not matter which thread computes a block, when it is computed again, or what else the
model computes meanwhile.
"""

import contextlib
import functools
import sys
import threading
from dataclasses import dataclass
from typing import NamedTuple

import torch

from vsa_torch.diffusers import _block, _order, _passes
from vsa_torch.diffusers._plan import Plan
from vsa_torch.diffusers._processor import VsaWanProcessor
from vsa_torch.diffusers._report import VsaReport
from vsa_torch.diffusers._steps import Place, Steps
from vsa_torch.tiling import num_tiles


class Facts(NamedTuple):
    """Third item of the rotary embedding; numbers only, which checkpointing, devices and torch.compile pass on."""

    call: int  # in the report
    grid: tuple  # (f, h, w) in tokens
    kept: int  # tiles, in layers that are not dense
    tiles: int  # in all
    tile_shape: tuple  # edges of a tile in tokens
    order: str  # of the model's tokens
    dense_layers: tuple  # layers that keep all tiles, ascending


@dataclass
class State:
    """What enable_vsa gives to a transformer, or to all transformers of a pipeline."""

    plan: Plan
    report: VsaReport
    steps: Steps


class _Said(NamedTuple):
    """The step that a pipeline or vsa_step states for the calls of a thread."""

    state: State
    place: Place
    sparsity: str | None  # as text, because torch.compile makes a changing number a variable, and top-k cannot be one
    by_user: bool


# `said`: tuple of _Said; `place`: of the transformer's call that has just begun, on its way to the rope's hook.
_thread = threading.local()


def install(transformer, state):
    """Adds the hooks that make the facts of every call."""
    transformer._vsa = transformer.rope._vsa = state
    transformer._vsa_hooks = (transformer.register_forward_pre_hook(_before_transformer, with_kwargs=True),
                              transformer.rope.register_forward_hook(_after_rope),
                              *_order.install(transformer, state.plan.tile_shape, state.plan.order))
    # Learns the step from the pipeline. Set on the instance, so that other models keep their own method.
    transformer.cache_context = functools.partial(_cache_context, transformer)


def remove(transformer):
    """Removes the hooks, if there are any."""
    for hook in transformer.__dict__.pop("_vsa_hooks", ()):
        hook.remove()
    for owner, name in ((transformer, "_vsa"), (transformer, "cache_context"), (transformer.rope, "_vsa")):
        owner.__dict__.pop(name, None)


def _before_transformer(transformer, args, kwargs):
    for layer, block in enumerate(transformer.blocks):
        if not isinstance(block.attn1.processor, VsaWanProcessor):
            raise ValueError(f"[enable_vsa] model: expected the processor that it set in layer {layer}, got "
                             f"{type(block.attn1.processor).__name__}; call enable_vsa or disable_vsa again")
    if torch.compiler.is_compiling():
        return
    for block in transformer.blocks:
        _block.check(block)
    state = transformer._vsa
    said = _said_to(state)
    timestep = kwargs.get("timestep", args[1] if len(args) > 1 else None)
    if said is not None:
        _thread.place = said.place
    elif isinstance(timestep, torch.Tensor):  # otherwise forward raises an error about it
        _thread.place = state.steps.of(timestep, state.plan.needs_step)


def _after_rope(rope, args, rotary_emb):
    state, said = rope._vsa, _said_to(rope._vsa)
    grid = tuple([int(extent) // edge for extent, edge in zip(args[0].shape[2:], rope.patch_size)])
    tiles = num_tiles(grid, state.plan.tile_shape, order=state.plan.order)
    compiling = torch.compiler.is_compiling()
    place = None
    if not compiling:
        place, _thread.place = getattr(_thread, "place", None), None
    if said is not None:
        sparsity = None if said.sparsity is None else float(said.sparsity)
    elif state.plan.needs_step and place is None:
        raise ValueError("[enable_vsa] timestep: expected a call whose step is known, got one inside torch.compile or "
                         "of transformer.forward itself; call it in a pipeline or inside vsa_step(model, step)")
    else:
        sparsity = state.plan.sparsity(place.step if state.plan.needs_step else 0)
    call = 0 if compiling else state.report.begin(place or Place(None, 0))
    plan = state.plan
    if plan.order != "raster":
        rotary_emb = _order.of_rows(rotary_emb, grid, plan.tile_shape, plan.order)
    facts = Facts(call, grid, plan.kept(sparsity, tiles), tiles, plan.tile_shape, plan.order,
                  plan.dense_layers)
    # Made once for all layers. Where there are none, the layers compute as diffusers does.
    tables = _passes.tables(*rotary_emb) if plan.fused and _passes.serve_call(args[0]) else None
    return *rotary_emb, facts, tables


def _said_to(state):
    for said in getattr(_thread, "said", ()):
        if said.state is state:
            return said
    return None


@contextlib.contextmanager
def _saying(places, by_user):
    """Calls inside belong to these places, (state, Place) each, unless the user has stated another one."""
    before = getattr(_thread, "said", ())
    kept = tuple([said for said in before if by_user is False and said.by_user])
    new = []
    for state, place in places:
        if not any(said.state is state for said in kept):
            sparsity = state.plan.sparsity(place.step)
            new.append(_Said(state, place, None if sparsity is None else repr(sparsity), by_user))
    _thread.said = (*new, *before)
    try:
        yield
    finally:
        _thread.said = before


@contextlib.contextmanager
def said_by_user(states, step):
    """Calls inside are of that step in all these states."""
    with _saying([(state, state.steps.said(step)) for state in states], by_user=True):
        yield


def _cache_context(transformer, name, **kwargs):
    """The transformer's cache_context, which pipelines enter around every call of it, inside their loop. It is no part
    of any graph, and the pipeline, which knows the step, is the `self` of the frame that calls it."""
    place = _of_pipeline(transformer._vsa.steps, sys._getframe(1).f_locals.get("self"))
    if place is None and isinstance(kwargs.get("step_index"), int):
        place = transformer._vsa.steps.said(kwargs["step_index"], name)
    return _both_contexts(transformer, [] if place is None else [(transformer._vsa, place)], name, kwargs)


@contextlib.contextmanager
def _both_contexts(transformer, places, name, kwargs):
    with type(transformer).cache_context(transformer, name, **kwargs), _saying(places, by_user=False):
        yield


def _of_pipeline(steps, pipeline):
    """The place of a pipeline's current timestep in its scheduler's table; None if it is not a pipeline."""
    scheduler, timestep = getattr(pipeline, "scheduler", None), getattr(pipeline, "current_timestep", None)
    table = getattr(scheduler, "timesteps", None)
    if not isinstance(timestep, torch.Tensor) or not isinstance(table, torch.Tensor):
        return None
    if timestep.untyped_storage().data_ptr() != table.untyped_storage().data_ptr():
        return None
    first = getattr(scheduler, "begin_index", None) or 0
    return steps.in_table(timestep, table.storage_offset() + first, getattr(scheduler, "order", 1))
