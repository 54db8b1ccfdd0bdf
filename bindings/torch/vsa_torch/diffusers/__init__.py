"""Video Sparse Attention in the Wan models of diffusers, switched on by one call.

    pipe = WanPipeline.from_pretrained(...)
    report = vsa_torch.diffusers.enable_vsa(pipe, sparsity=0.9, dense_steps=10)
    video = pipe(prompt).frames
    print(report)

Self-attention alone changes; attention to text and images stays as it is.
"""

import torch
from diffusers import WanTransformer3DModel

from vsa_torch import _checks
from vsa_torch.diffusers import _gates
from vsa_torch.diffusers._report import VsaReport
from vsa_torch.diffusers._wan import VsaWanProcessor, Plan

__all__ = ["VsaReport", "disable_vsa", "enable_vsa"]


def enable_vsa(model, *, sparsity=None, topk=None, tile_shape=(4, 4, 4), dense_steps=0, dense_layers=(),
               schedule=None, gates="auto"):
    """Makes the self-attention of a Wan transformer, or of all transformers of a pipeline, sparse.

    sparsity, topk  what is left out, at most 1, or how many key tiles are kept: all, where a video has no more
                    (give one of them, or schedule)
    tile_shape      edges of a tile in tokens (frames, rows, columns)
    dense_steps     the first steps of every run keep all tiles. A step is a new, lower timestep; a
                    higher one begins a new run
    dense_layers    these layers keep all tiles in every step
    schedule        sparsity by step: a sequence, whose last value holds on, or a function of the step
    gates           the weights to_gate_compress of a checkpoint that was trained with VSA: "auto" (from
                    the local folder or the download that the transformer came from, if it has them; main's, in
                    the default cache), a folder or file of
                    safetensors, a state dict, or None: without, even if the checkpoint has some. Names
                    are FastVideo's (blocks.N.to_gate_compress) or diffusers'
                    (blocks.N.attn1.to_gate_compress); all layers have one, or none

    With gates out = fine + gate * coarse, in dense layers and steps, too: that is the function the
    model was trained for. Without gates the coarse branch only selects, and dense layers and steps run
    the model's own attention.

    Returns a VsaReport that fills while the model runs. Calling it again replaces the settings. A deep copy of
    the model counts steps of its own, into a report of its own.
    Raises ValueError and TypeError (the message names the argument), NotImplementedError for other models.
    """
    transformers = _transformers(model)
    plan = _plan(tile_shape, topk, _schedule(sparsity, topk, schedule), dense_steps, dense_layers,
                 min(len(t.blocks) for t in transformers))
    # Everything is read and checked before any model is changed.
    found = [_gates.find(gates, t, plan.tile_shape) for t in transformers]
    report = VsaReport(num_gates=sum(len(gates.layers) for gates in found))
    processors = [[VsaWanProcessor(_dense(block), layer, plan, report) for layer, block in enumerate(t.blocks)]
                  for t in transformers]
    for transformer, gates, new in zip(transformers, found, processors):
        _remove(transformer)
        _gates.attach(transformer, gates)
        for block, processor in zip(transformer.blocks, new):
            block.attn1.set_processor(processor)
        transformer._vsa_hook = transformer.register_forward_pre_hook(_begin_call, with_kwargs=True)
    return report


def disable_vsa(model, *, drop_gates=False):
    """Brings back the attention that the model had before enable_vsa.

    A model with gates computes another function without them, so that needs drop_gates=True; to run
    it densely with its gates, enable_vsa(model, sparsity=0).
    """
    transformers = _transformers(model)
    if not drop_gates and any(_gates.attached(t).layers for t in transformers):
        raise ValueError("[disable_vsa] drop_gates: expected True for a model trained with to_gate_compress, "
                         "got False; enable_vsa(model, sparsity=0) is dense and keeps the gates")
    for transformer in transformers:
        _remove(transformer)
        _gates.attach(transformer, _gates.NONE)


def _transformers(model):
    """The Wan transformers of a model or a pipeline; Wan 2.2 has two."""
    parts = [model] if isinstance(model, torch.nn.Module) else [
        getattr(model, name, None) for name in ("transformer", "transformer_2")]
    parts = [part for part in parts if part is not None]
    for part in parts:
        if not isinstance(part, WanTransformer3DModel):
            raise NotImplementedError(f"[enable_vsa] model: expected a WanTransformer3DModel or a pipeline "
                                      f"with one, got {type(part).__name__}")
    if not parts:
        raise NotImplementedError(f"[enable_vsa] model: expected a WanTransformer3DModel or a pipeline with "
                                  f"one, got {type(model).__name__}")
    return parts


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
    if isinstance(schedule, str) or not hasattr(schedule, "__iter__"):
        raise TypeError(f"[enable_vsa] schedule: expected sparsities or a function, got {schedule!r}")
    steps = tuple([_checks.share("enable_vsa", "schedule", value) for value in schedule])
    if not steps:
        raise ValueError("[enable_vsa] schedule: expected at least one sparsity, got none")
    return steps


def _plan(tile_shape, topk, schedule, dense_steps, dense_layers, num_layers):
    def integer(name, value, least, most, of=""):
        return _checks.integer("enable_vsa", name, value, least, most, of)

    if not hasattr(dense_layers, "__iter__"):
        raise TypeError(f"[enable_vsa] dense_layers: expected a sequence of layers, got {dense_layers!r}")
    layers = [integer("dense_layers", layer, 0, num_layers - 1, " (layers)") for layer in dense_layers]
    return Plan(tile_shape=_checks.tile_shape("enable_vsa", tile_shape), schedule=schedule,
                topk=None if topk is None else integer("topk", topk, 1, _checks.MAX_TOKENS),
                dense_steps=integer("dense_steps", dense_steps, 0, _checks.MAX_TOKENS),
                dense_layers=frozenset(layers))


def _begin_call(transformer, args, kwargs):
    """A hook that prepares the processors for the call that begins. What it needs it finds in the transformer, so
    that a copy of the transformer has it, too."""
    for layer, block in enumerate(transformer.blocks):
        if not isinstance(block.attn1.processor, VsaWanProcessor):
            raise ValueError(f"[enable_vsa] model: expected its own processor in layer {layer}, got "
                             f"{type(block.attn1.processor).__name__}; call enable_vsa or disable_vsa again")
    processors = [block.attn1.processor for block in transformer.blocks]
    names = ("hidden_states", "timestep")
    hidden_states, timestep = (kwargs[name] if name in kwargs else args[i] for i, name in enumerate(names))
    grid = tuple(e // p for e, p in zip(hidden_states.shape[2:], transformer.config.patch_size))
    if processors[0].plan.observe(float(timestep.max())):
        processors[0].report.clear()
    for processor in processors:
        processor.begin(grid)


def _dense(block):
    """The processor that the block has without VSA."""
    processor = block.attn1.processor
    return processor.dense if isinstance(processor, VsaWanProcessor) else processor


def _remove(transformer):
    for block in transformer.blocks:
        block.attn1.set_processor(_dense(block))
    hook = transformer.__dict__.pop("_vsa_hook", None)
    if hook is not None:
        hook.remove()
