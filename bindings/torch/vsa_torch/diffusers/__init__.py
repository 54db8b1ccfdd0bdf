"""Video Sparse Attention in the Wan models of diffusers, switched on by one call.

    import vsa_torch.diffusers  # before the model is loaded
    pipe = WanPipeline.from_pretrained(...)
    report = vsa_torch.diffusers.enable_vsa(pipe, sparsity=0.9, dense_steps=10)
    video = pipe(prompt).frames
    print(report)

Self-attention alone changes; attention to text and images stays as it is.
"""

from vsa_torch import _checks
from vsa_torch.diffusers import _call, _gates, _model, _origin
from vsa_torch.diffusers._plan import plan as _plan
from vsa_torch.diffusers._processor import VsaWanProcessor
from vsa_torch.diffusers._report import VsaReport
from vsa_torch.diffusers._steps import Steps

__all__ = ["VsaReport", "disable_vsa", "enable_vsa", "vsa_step"]

_origin.remember()


def enable_vsa(model, *, sparsity=None, topk=None, tile_shape=(4, 4, 4), dense_steps=0, dense_layers=(),
               schedule=None, gates="auto"):
    """Makes the self-attention of a Wan transformer, or of all transformers of a pipeline, sparse.

    model           a WanTransformer3DModel, also inside torch.compile, DistributedDataParallel, FSDP or
                    peft, or a pipeline with one or two
    sparsity, topk  what is left out, at most 1, or how many key tiles are kept: all, where a video has no more
                    (give one of them, or schedule)
    tile_shape      edges of a tile in tokens (frames, rows, columns)
    dense_steps     the first steps of every run keep all tiles
    dense_layers    these layers keep all tiles in every step
    schedule        sparsity by step: a sequence, whose last value holds on, or a function of the step; a
                    function without arguments gives the sparsity of the time, whatever step it is
    gates           the weights to_gate_compress of a checkpoint that was trained with VSA: "auto" (those that
                    the model has; else from the files that diffusers loaded it from, if they have some),
                    a folder, a file or an index of shards, a state dict, or None: without, even if there are some. Names are
                    FastVideo's (blocks.N.to_gate_compress), diffusers' (blocks.N.attn1.to_gate_compress)
                    or Wan's (blocks.N.self_attn.to_gate_compress); all layers have one, or none

    With gates out = fine + gate * coarse, in dense layers and steps, too: that is the function the
    model was trained for. Without gates the coarse branch only selects, and dense layers and steps run
    the model's own attention.

    Gates are modules of the model, blocks.N.attn1.to_gate_compress, and stay the same modules in every later
    call, in copies and in what is saved. New ones get the dtype in which the model computes, and are frozen
    where the model is. Gates given for a model that has some are written into its parameters in place.

    Which step a call is of comes from vsa_step, from the pipeline, from a timestep that is a view of
    `scheduler.timesteps`, or from falling timesteps, where a higher one begins a new run. Only the last, where
    what is computed depends on the step, reads a timestep from a GPU.

    Returns a VsaReport that fills while the model runs. Calling it again replaces the settings. A deep copy of
    the model counts steps of its own, into a report of its own.
    Raises ValueError and TypeError (the message names the argument), NotImplementedError for other models.
    """
    found = _model.transformers(model)
    settings = _plan(tile_shape, sparsity, topk, schedule, dense_steps, dense_layers,
                     min(len(transformer.blocks) for transformer, _ in found))
    # Everything is read and checked before any model is changed.
    changes = [_gates.change(gates, transformer, wrappers, settings.tile_shape) for transformer, wrappers in found]
    report = VsaReport(num_gates=sum(change.num_gates for change in changes))
    state = _call.State(settings, report, Steps())
    processors = [[VsaWanProcessor(_dense(block), layer, settings, report)
                   for layer, block in enumerate(transformer.blocks)] for transformer, _ in found]
    for (transformer, _), change, new in zip(found, changes, processors):
        _remove(transformer)
        change.apply(transformer, settings.tile_shape)
        for block, processor in zip(transformer.blocks, new):
            block.attn1.set_processor(processor)
        _call.install(transformer, state)
    return report


def disable_vsa(model, *, drop_gates=False, keep_gates=False):
    """Brings back the attention that the model had before enable_vsa.

    A model with gates computes another function without them, so that needs drop_gates=True, which takes them
    away, or keep_gates=True: they stay in the model, unused, for the next enable_vsa and for what is saved. To run it
    densely with its gates, enable_vsa(model, sparsity=0).
    Raises ValueError, NotImplementedError for other models.
    """
    found = [transformer for transformer, _ in _model.transformers(model)]
    if drop_gates and keep_gates:
        raise ValueError("[disable_vsa] drop_gates: expected one of drop_gates and keep_gates, got both")
    gated = any(_gates.attached(block.attn1) is not None for t in found for block in t.blocks)
    if gated and not drop_gates and not keep_gates:
        raise ValueError("[disable_vsa] drop_gates: expected True, or keep_gates=True, for a model trained with "
                         "to_gate_compress, got False; enable_vsa(model, sparsity=0) is dense and uses the gates")
    for transformer in found:
        _remove(transformer)
        if not keep_gates:
            _gates.Change("remove").apply(transformer, None)


def vsa_step(model, step):
    """Says which step the calls of a model are of, in a loop of one's own:

        for i, t in enumerate(timesteps):
            with vsa_step(model, i):  # around all calls of the step: both halves of guidance
                noise = model(latents, t.expand(2), prompts)

    model  what enable_vsa was given; step >= 0, counted within the run. Step 0 begins a new run. It holds for
    calls in the same thread, before what a pipeline says.
    Raises ValueError.
    """
    step = _checks.integer("vsa_step", "step", step, 0, _checks.MAX_TOKENS)
    states = []
    for transformer, _ in _model.transformers(model):
        state = transformer.__dict__.get("_vsa")
        if state is None:
            raise ValueError("[vsa_step] model: expected one after enable_vsa, got one without VSA")
        if not any(state is other for other in states):
            states.append(state)
    return _call.said_by_user(states, step)


def _dense(block):
    """The processor that the block has without VSA."""
    processor = block.attn1.processor
    return processor.dense if isinstance(processor, VsaWanProcessor) else processor


def _remove(transformer):
    for block in transformer.blocks:
        block.attn1.set_processor(_dense(block))
    _call.remove(transformer)
