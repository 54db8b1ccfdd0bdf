"""Wan's self-attention with VSA between the projections."""

from dataclasses import dataclass, field

import torch

from vsa_torch import _checks
from vsa_torch.attention import video_sparse_attention
from vsa_torch.diffusers._report import Stopwatch
from vsa_torch.tiling import num_tiles, topk_from_sparsity


@dataclass
class Plan:
    """The settings of a model, and where its current run stands."""

    tile_shape: tuple
    topk: int | None
    schedule: object  # sparsity by step: a tuple whose last value holds on, or a function; None with topk
    dense_steps: int
    dense_layers: frozenset
    step: int = 0
    last_timestep: float | None = field(default=None, repr=False)

    def observe(self, timestep):
        """Counts steps by falling timesteps; True where a new run begins."""
        if timestep == self.last_timestep:  # the other half of guidance
            return False
        begins = self.last_timestep is None or timestep > self.last_timestep
        self.step = 0 if begins else self.step + 1
        self.last_timestep = timestep
        return begins

    def kept_tiles(self, layer, grid):
        """(kept, all) tiles of the current call in that layer."""
        tiles = num_tiles(grid, self.tile_shape)
        if self.step < self.dense_steps or layer in self.dense_layers:
            return tiles, tiles
        if self.schedule is None:
            return min(self.topk, tiles), tiles
        if callable(self.schedule):
            return topk_from_sparsity(_checks.share("enable_vsa", "schedule", self.schedule(self.step)), tiles), tiles
        return topk_from_sparsity(self.schedule[min(self.step, len(self.schedule) - 1)], tiles), tiles


def rotated(x, freqs_cos, freqs_sin):
    """Rotary embedding of pairs (2i, 2i + 1) along the last axis of [B, S, H, D]."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = freqs_cos[..., 0::2], freqs_sin[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).type_as(x)


class VsaWanProcessor:
    """Stands in for WanAttnProcessor in one self-attention; `dense` is the one it replaced.

    What a call depends on lies in `grid` and `kept`, set before it: torch.compile then makes one graph for
    all layers and steps that keep as many tiles.
    """

    def __init__(self, dense, layer, plan, report):
        self.dense, self.layer, self.plan, self.report = dense, layer, plan, report
        self._parallel_config = getattr(dense, "_parallel_config", None)  # refused, if it is set
        self.grid = self.kept = self.tiles = None

    # What diffusers sets on its own processors goes to the one that runs dense layers and steps.
    @property
    def _attention_backend(self):
        return self.dense._attention_backend

    @_attention_backend.setter
    def _attention_backend(self, backend):
        self.dense._attention_backend = backend

    @property
    def _parallel_config(self):
        return None

    @_parallel_config.setter
    def _parallel_config(self, config):
        if config is not None:
            raise NotImplementedError("[enable_vsa] model: expected one without context parallelism: tiles "
                                      "cannot be spread over ranks")

    def begin(self, grid):
        """Called before every call of the transformer, when the plan knows the step."""
        self.grid = grid
        self.kept, self.tiles = self.plan.kept_tiles(self.layer, grid)

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None):
        if encoder_hidden_states is not None or attention_mask is not None:
            raise NotImplementedError("[enable_vsa] expected self-attention without a mask")
        if self.grid is None:
            raise ValueError("[enable_vsa] grid: expected a call of the whole transformer, which tells it, got "
                             "one of a block alone")
        if torch.compiler.is_compiling():
            return self.attend(attn, hidden_states, rotary_emb)
        stopwatch = Stopwatch(hidden_states.device)
        out = self.attend(attn, hidden_states, rotary_emb)
        stopwatch.stop()
        self.report.add(step=self.plan.step, layer=self.layer, kept=self.kept / self.tiles, time=stopwatch,
                        route="dense" if self.kept == self.tiles else "vsa")
        return out

    def attend(self, attn, hidden_states, rotary_emb):
        gate = getattr(attn, "to_gate_compress", None)
        if self.kept == self.tiles and gate is None:
            return self.dense(attn, hidden_states, None, None, rotary_emb)
        if attn.fused_projections:
            query, key, value = attn.to_qkv(hidden_states).chunk(3, dim=-1)
        else:
            query, key, value = attn.to_q(hidden_states), attn.to_k(hidden_states), attn.to_v(hidden_states)
        heads = (attn.heads, -1)
        query, key = attn.norm_q(query).unflatten(2, heads), attn.norm_k(key).unflatten(2, heads)
        value = value.unflatten(2, heads)
        if rotary_emb is not None:
            query, key = rotated(query, *rotary_emb), rotated(key, *rotary_emb)
        # The gate sees what q, k and v see; it has no activation.
        weight = None if gate is None else gate(hidden_states).unflatten(2, heads)
        out = video_sparse_attention(query, key, value.type_as(query), weight, grid=self.grid,
                                     tile_shape=self.plan.tile_shape, topk=self.kept)
        out = attn.to_out[0](out.flatten(2, 3).type_as(query))
        return attn.to_out[1](out)
