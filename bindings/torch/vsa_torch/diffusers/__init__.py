"""Video Sparse Attention in the Wan models of diffusers, switched on by one call.

    pipe = WanPipeline.from_pretrained(...)
    report = vsa_torch.diffusers.enable_vsa(pipe, sparsity=0.9, dense_steps=10)
    video = pipe(prompt).frames
    print(report)

Self-attention alone changes; attention to text and images stays as it is.
"""

import torch
from diffusers import WanTransformer3DModel

from vsa_torch.diffusers import _gates
from vsa_torch.diffusers._report import VsaReport
from vsa_torch.diffusers._wan import VsaWanProcessor, Plan
from vsa_torch.tiling import extents, topk_from_sparsity

__all__ = ["VsaReport", "disable_vsa", "enable_vsa"]


def enable_vsa(model, *, sparsity=None, topk=None, tile_shape=(4, 4, 4), dense_steps=0, dense_layers=(),
               schedule=None, gates="auto"):
    """Makes the self-attention of a Wan transformer, or of all transformers of a pipeline, sparse.

    sparsity, topk  what is left out, or how many key tiles are kept (give one of them, or schedule)
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

    Returns a VsaReport that fills while the model runs. Calling it again replaces the settings.
    Raises ValueError (the message names the argument), NotImplementedError for other models.
    """
    transformers = _transformers(model)
    plan = Plan(tile_shape=extents("tile_shape", tile_shape), topk=topk, dense_steps=dense_steps,
                dense_layers=frozenset(dense_layers), schedule=_schedule(sparsity, topk, schedule))
    num_layers = {len(t.blocks) for t in transformers}
    _check(plan, min(num_layers))
    # Everything is read and checked before any model is changed.
    found = [_gates.find(gates, t, plan.tile_shape) for t in transformers]
    report = VsaReport(num_gates=sum(len(weights) for weights in found))
    processors = [[VsaWanProcessor(_dense(block), layer, plan, report) for layer, block in enumerate(t.blocks)]
                  for t in transformers]
    for transformer, weights, new in zip(transformers, found, processors):
        _remove(transformer)
        _gates.attach(transformer, weights)
        for block, processor in zip(transformer.blocks, new):
            block.attn1.set_processor(processor)
        transformer._vsa_hook = transformer.register_forward_pre_hook(
            _observer(plan, report), with_kwargs=True)
    return report


def disable_vsa(model, *, drop_gates=False):
    """Brings back the attention that the model had before enable_vsa.

    A model with gates computes another function without them, so that needs drop_gates=True; to run
    it densely with its gates, enable_vsa(model, sparsity=0).
    """
    transformers = _transformers(model)
    if not drop_gates and any(_gates.attached(t) for t in transformers):
        raise ValueError("[disable_vsa] drop_gates: expected True for a model trained with to_gate_compress, "
                         "got False; enable_vsa(model, sparsity=0) is dense and keeps the gates")
    for transformer in transformers:
        _remove(transformer)
        _gates.attach(transformer, {})


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
    """Sparsity as a function of the step; None where topk is given."""
    given = [name for name, value in (("sparsity", sparsity), ("topk", topk), ("schedule", schedule))
             if value is not None]
    if len(given) != 1:
        raise ValueError(f"[enable_vsa] sparsity: expected one of sparsity, topk and schedule, got "
                         f"{' and '.join(given) or 'none'}")
    if topk is not None:
        return None
    if sparsity is not None:
        topk_from_sparsity(sparsity, 1)  # refuses NaN
        return lambda step: sparsity
    if callable(schedule):
        return schedule
    steps = [float(value) for value in schedule]
    if not steps:
        raise ValueError("[enable_vsa] schedule: expected at least one sparsity, got none")
    for value in steps:
        topk_from_sparsity(value, 1)
    return lambda step: steps[min(step, len(steps) - 1)]


def _check(plan, num_layers):
    if plan.topk is not None and (not isinstance(plan.topk, int) or plan.topk < 1):
        raise ValueError(f"[enable_vsa] topk: expected an int of at least 1, got {plan.topk}")
    if not isinstance(plan.dense_steps, int) or plan.dense_steps < 0:
        raise ValueError(f"[enable_vsa] dense_steps: expected an int of at least 0, got {plan.dense_steps}")
    for layer in plan.dense_layers:
        if not isinstance(layer, int) or not 0 <= layer < num_layers:
            raise ValueError(f"[enable_vsa] dense_layers: expected layers 0 to {num_layers - 1}, got {layer}")


def _observer(plan, report):
    """A hook that prepares the processors for the call that begins."""

    def before(transformer, args, kwargs):
        names = ("hidden_states", "timestep")
        hidden_states, timestep = (kwargs[name] if name in kwargs else args[i] for i, name in enumerate(names))
        grid = tuple(e // p for e, p in zip(hidden_states.shape[2:], transformer.config.patch_size))
        if plan.observe(float(timestep.max())):
            report.clear()
        for layer, block in enumerate(transformer.blocks):
            if not isinstance(block.attn1.processor, VsaWanProcessor):
                raise ValueError(f"[enable_vsa] model: expected its own processor in layer {layer}, got "
                                 f"{type(block.attn1.processor).__name__}; call enable_vsa or disable_vsa again")
            block.attn1.processor.begin(grid)

    return before


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
