"""Wan's self-attention with VSA between the projections."""

import torch

from vsa_torch.attention import attention_of_means, video_sparse_attention
from vsa_torch.diffusers import _passes
from vsa_torch.diffusers._report import Stopwatch
from vsa_torch.tiling import tile_lengths


def rotated(x, freqs_cos, freqs_sin):
    """Rotary embedding of pairs (2i, 2i + 1) along the last axis of [B, S, H, D]."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = freqs_cos[..., 0::2], freqs_sin[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).type_as(x)


class VsaWanProcessor:
    """Replaces WanAttnProcessor in one self-attention; `dense` is the processor that it replaced.

    What a call depends on is passed with the call, after the two tensors of the rotary embedding: see _call.Facts.
    So torch.compile makes one graph for all layers and steps that keep the same number of tiles.
    """

    def __init__(self, dense, layer, plan, report):
        self.dense, self.layer, self.report = dense, layer, report
        self.dense_layers, self.keeps_all = plan.dense_layers, layer in plan.dense_layers
        self._parallel_config = getattr(dense, "_parallel_config", None)  # refused, if it is set

    # Attributes that diffusers sets on its processors are passed on to the one that runs dense layers and steps.
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

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None):
        if encoder_hidden_states is not None or attention_mask is not None:
            raise NotImplementedError("[enable_vsa] model: expected self-attention without a mask")
        if rotary_emb is None or len(rotary_emb) != 4:
            raise ValueError("[enable_vsa] grid: expected a call of the whole transformer, which knows it, got "
                             "one of a block alone")
        cos, sin, facts, tables = rotary_emb
        # A call may be computed again after enable_vsa has changed the settings, and then keeps its own settings. Looking
        # the layer up in every call would make torch.compile compile again for every layer.
        same = facts.dense_layers == self.dense_layers
        if self.keeps_all if same else self.layer in facts.dense_layers:
            facts = facts._replace(kept=facts.tiles)
        if torch.compiler.is_compiling():
            return self.attend(attn, hidden_states, (cos, sin), facts, None)
        stopwatch = Stopwatch(hidden_states.device)
        out = self.attend(attn, hidden_states, (cos, sin), facts, tables)
        stopwatch.stop()
        route = "dense" if facts.kept == facts.tiles else "vsa"
        self.report.add(facts.call, self.layer, route, facts.kept / facts.tiles, stopwatch)
        return out

    def attend(self, attn, hidden_states, rotary_emb, facts, tables):
        gate = getattr(attn, "to_gate_compress", None)
        if facts.kept == facts.tiles and gate is None:
            return self.dense(attn, hidden_states, None, None, rotary_emb)
        if attn.fused_projections:
            linears = attn.to_qkv, attn.to_qkv
            query, key, value = attn.to_qkv(hidden_states).chunk(3, dim=-1)
        else:
            linears = attn.to_q, attn.to_k
            query, key, value = attn.to_q(hidden_states), attn.to_k(hidden_states), attn.to_v(hidden_states)
        # The gate sees what q, k and v see; it has no activation.
        weight = None if gate is None else gate(hidden_states)
        others = (key, value) if weight is None else (key, value, weight)
        # norm_rope_pool takes the tiles of a grid alone.
        if tables is not None and facts.order == "raster" and _serves(attn, query, *others):
            out = _fused(attn, linears, (query, key, value, weight), tables, facts)
        else:
            heads = (attn.heads, -1)
            query, key = attn.norm_q(query).unflatten(2, heads), attn.norm_k(key).unflatten(2, heads)
            query, key = rotated(query, *rotary_emb), rotated(key, *rotary_emb)
            value = value.unflatten(2, heads).type_as(query)
            weight = None if weight is None else weight.unflatten(2, heads).type_as(query)
            where = {"grid": facts.grid}
            if facts.order != "raster":  # the model's tokens are in tile order: see _order
                where = {"q_tile_len": tile_lengths(facts.grid, facts.tile_shape, order=facts.order), "padded": False}
            out = video_sparse_attention(query, key, value, weight, **where, tile_shape=facts.tile_shape,
                                         topk=facts.kept)
        out = attn.to_out[0](out.flatten(2, 3).type_as(query))
        return attn.to_out[1](out)


def _serves(attn, query, *others):
    """Whether norm_rope_pool computes what the norms and the rotary embedding of this attention do."""
    return (_passes.serve_call(query) and _passes.serve(attn.heads, query, *others)
            and _passes.is_rms_norm(attn.norm_q, query) and _passes.is_rms_norm(attn.norm_k, query))


def _fused(attn, linears, projected, tables, facts):
    """norm_rope_pool of query and key, whose means the operator then does not compute again."""
    query, key, value, gate = projected
    query, q_pooled = _passes.norm_rope_pool(query, linears[0], attn.norm_q, attn.heads, tables, facts)
    key, k_pooled = _passes.norm_rope_pool(key, linears[1], attn.norm_k, attn.heads, tables, facts)
    value, gate = (None if t is None else t.unflatten(2, (attn.heads, -1)) for t in (value, gate))
    return attention_of_means(query, key, value, gate, q_pooled, k_pooled, grid=facts.grid, tile_shape=facts.tile_shape,
                              topk=facts.kept)
