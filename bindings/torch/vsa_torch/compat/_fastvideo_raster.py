"""The methods that take the place of FastVideo's: its backend VIDEO_SPARSE_ATTN and its layer, in raster order."""

import functools
import inspect
import math
import os

import torch

from vsa_torch import attention

_IMPL = {"preprocess_qkv": ("qkv", "attn_metadata"),
         "forward": ("query", "key", "value", "gate_compress", "attn_metadata"),
         "postprocess_output": ("output", "attn_metadata")}
_REPLICATED = ("replicated_q", "replicated_k", "replicated_v")
# What DistributedAttention_VSA.forward takes: from 0.2.0 on, in 0.1.7, and before.
_LAYER = [("q", "k", "v", "original_seq_len", *_REPLICATED, "gate_compress", "freqs_cis"),
          ("q", "k", "v", *_REPLICATED, "gate_compress", "freqs_cis", "attention_mask"),
          ("q", "k", "v", *_REPLICATED, "gate_compress")]


def targets(backend, layer):
    """{(class, name): known layouts, each the names of the arguments} of all methods that are replaced."""
    impl = {(backend.VideoSparseAttentionImpl, name): [names] for name, names in _IMPL.items()}
    return impl | {(layer.DistributedAttention_VSA, "forward"): _LAYER}


def replacements(backend, layer):
    """{(class, name): function} for all targets of FastVideo's two modules."""
    impl, distributed = backend.VideoSparseAttentionImpl, layer.DistributedAttention_VSA
    theirs = {name: vars(impl)[name] for name in _IMPL}

    def in_raster_order(cls):
        """Whether an implementation has all three methods from here; tile order and raster order do not mix."""
        return (getattr(cls, "forward", None) is forward and cls.preprocess_qkv is preprocess_qkv
                and cls.postprocess_output is postprocess_output)

    def preprocess_qkv(self, qkv, attn_metadata):
        return qkv if in_raster_order(type(self)) else theirs["preprocess_qkv"](self, qkv, attn_metadata)

    def forward(self, query, key, value, gate_compress, attn_metadata):
        if not in_raster_order(type(self)):
            return theirs["forward"](self, query, key, value, gate_compress, attn_metadata)
        return attention.video_sparse_attention(
            query, key, value, gate_compress, grid=attn_metadata.dit_seq_shape, tile_shape=backend.VSA_TILE_SIZE,
            topk=_topk(backend, attn_metadata))

    def postprocess_output(self, output, attn_metadata):
        return output if in_raster_order(type(self)) else theirs["postprocess_output"](self, output, attn_metadata)

    def takes(module, replicated):
        """Whether this module computes a layer: sequence parallelism and other implementations stay FastVideo's."""
        return (in_raster_order(type(module.attn_impl)) and layer.get_sp_world_size() == 1
                and all(tensor is None for tensor in replicated))

    layer_forward = _layer_forward(layer, vars(distributed)["forward"], takes)
    # FastVideo's own switch (from 0.2.1 on, served for all) to keep attention out of compiled graphs. There it is on
    # unless it is set to no: its kernels break graphs.
    if os.environ.get("FASTVIDEO_DISABLE_ATTENTION_COMPILE", "0").strip().lower() not in ("0", "false", "no", "off", ""):
        layer_forward = torch.compiler.disable(layer_forward)
    return {(impl, "preprocess_qkv"): preprocess_qkv, (impl, "forward"): forward,
            (impl, "postprocess_output"): postprocess_output, (distributed, "forward"): layer_forward}


def _topk(backend, attn_metadata):
    """Kept tiles as this version of FastVideo counts them; its kernels take a number above all tiles for all."""
    if hasattr(backend, "_compute_cur_topk"):  # 0.2.1
        topk = backend._compute_cur_topk(attn_metadata)
    else:  # the share is of the full tiles; partial tiles do not count
        full_tiles = attn_metadata.total_seq_length / math.prod(backend.VSA_TILE_SIZE)
        topk = math.ceil((1 - attn_metadata.VSA_sparsity) * full_tiles)
    return min(topk, math.prod(attn_metadata.num_tiles))


def _layer_forward(layer, original, takes):
    """DistributedAttention_VSA.forward with the arguments that `original` has; what `takes` refuses is left to it."""
    names = tuple(inspect.signature(original).parameters)[1:]

    def attend(impl, tensors, freqs_cis, metadata, length):
        """(out [B, S, H, D], None) of q, k, v and the gate, of which the first `length` tokens count."""
        padding = tensors[0].shape[1] - length
        q, k, v, gate = (x if x is None or not padding else x[:, :length] for x in _as_concatenated(tensors))
        if freqs_cis is not None:
            q, k = (layer._apply_rotary_emb(x, *freqs_cis, is_neox_style=False) for x in (q, k))
        out = impl.forward(q, k, v, gate, metadata)
        return (torch.nn.functional.pad(out, (0, 0, 0, 0, 0, padding)) if padding else out), None

    def forward(self, q, k, v, original_seq_len, replicated_q=None, replicated_k=None, replicated_v=None,
                gate_compress=None, freqs_cis=None):
        replicated = (replicated_q, replicated_k, replicated_v)
        if not takes(self, replicated):
            return original(self, q, k, v, original_seq_len, *replicated, gate_compress, freqs_cis)
        metadata = layer.get_forward_context().attn_metadata
        return attend(self.attn_impl, (q, k, v, gate_compress), freqs_cis, metadata, original_seq_len)

    def forward_with_mask(self, q, k, v, replicated_q=None, replicated_k=None, replicated_v=None, gate_compress=None,
                          freqs_cis=None, attention_mask=None):
        replicated = (replicated_q, replicated_k, replicated_v)
        if not takes(self, replicated):
            more = (freqs_cis, attention_mask)[:len(names) - 7]
            return original(self, q, k, v, *replicated, gate_compress, *more)
        metadata = layer.get_forward_context().attn_metadata
        # The mask marks the tokens of the video before padding; counting its ones would wait for the device.
        length = q.shape[1] if attention_mask is None else metadata.total_seq_length
        return attend(self.attn_impl, (q, k, v, gate_compress), freqs_cis, metadata, length)

    return forward if "original_seq_len" in names else forward_with_mask


def _as_concatenated(tensors):
    """Tensors (None stays) as FastVideo's concatenation would leave them: of one dtype, the last axis contiguous."""
    if len({x.dtype for x in tensors if x is not None}) > 1:
        dtype = functools.reduce(torch.promote_types, [x.dtype for x in tensors if x is not None])
        tensors = [x if x is None else x.to(dtype) for x in tensors]
    return [x if x is None or x.stride(-1) == 1 else x.contiguous() for x in tensors]
