"""Video Sparse Attention in the Wan models of diffusers, switched on by one call.

    import vsa_torch.diffusers  # before the model is loaded
    pipe = WanPipeline.from_pretrained(...)
    report = vsa_torch.diffusers.enable_vsa(pipe, sparsity=0.9, dense_steps=10)
    video = pipe(prompt).frames
    print(report)

Only self-attention changes; attention to text and images stays as it is.
"""

from vsa_torch import _checks
from vsa_torch.diffusers import _block, _call, _gates, _model, _origin
from vsa_torch.diffusers._plan import plan as _plan
from vsa_torch.diffusers._processor import VsaWanProcessor
from vsa_torch.diffusers._report import VsaReport
from vsa_torch.diffusers._steps import Steps

__all__ = ["VsaReport", "disable_vsa", "enable_vsa", "vsa_step"]

_origin.remember()


def enable_vsa(model, *, sparsity=None, topk=None, tile_shape=(4, 4, 4), dense_steps=0, dense_layers=(),
               schedule=None, gates="auto", fused=True, order="raster"):
    """Makes the self-attention of a Wan transformer, or of all transformers of a pipeline, sparse.

    Give one of sparsity, topk and schedule.

    model         a WanTransformer3DModel, also inside torch.compile, DistributedDataParallel, FSDP or peft, or a
                  pipeline with one or two of them
    sparsity      the share of the key tiles that each query tile ignores, at most 1
    topk          how many key tiles each query tile keeps; if the video has fewer, it keeps all
    schedule      the sparsity of each step: a sequence, whose last value holds for all further steps, or a function
                  of the step. A function without arguments is called in every step and gives the present sparsity
    tile_shape    edges of a tile in tokens (frames, rows, columns)
    dense_steps   the first steps of every run keep all tiles
    dense_layers  these layers keep all tiles in every step
    gates         the weights to_gate_compress of a checkpoint that was trained with VSA. "auto": the gates that the
                  model has, or else those in the files from which diffusers loaded it, if they have some. A folder, a
                  file, the index of several files, or a state dict: the gates in it. None: no gates, even if there are
                  some. Names are those of FastVideo (blocks.N.to_gate_compress), diffusers
                  (blocks.N.attn1.to_gate_compress) or Wan (blocks.N.self_attn.to_gate_compress); either all layers have
                  a gate, or none has
    fused         eager calls without gradients compute norms, rotary embedding, residuals and modulation in a few passes
                  (torch.ops.vsa.norm_rope_pool and residual_norm) where the blocks are as diffusers made them. False:
                  by diffusers' own operations in all calls

    order         the order in which tokens are cut into tiles, as for video_sparse_attention. With "gilbert" and
                  "gilbert-frames" the model computes its tokens in this order, from the patch embedding to its output

    With gates out = fine + gate * coarse, in dense layers and steps, too, because the model was trained with this sum.
    Without gates the coarse branch only selects tiles, and dense layers and steps run the model's own attention.

    Gates are modules of the model, blocks.N.attn1.to_gate_compress, and stay the same modules in every later call, in
    copies, and when the model is saved. New gates have the dtype in which the model computes, and are frozen if the
    model is. If gates are given for a model that has some, their values are written into the existing parameters.

    The step of a call is found in this order: from vsa_step; from the pipeline; from a timestep that is a view of
    `scheduler.timesteps`; from the value of the timestep, which falls from step to step, and rises when a new run
    begins. Only the last reads a timestep from a GPU, and only if the sparsity depends on the step.

    Returns a VsaReport that fills while the model runs. Calling enable_vsa again replaces the settings. A deep copy of
    the model counts steps of its own, into a report of its own.
    Raises ValueError and TypeError, whose messages name the argument, and NotImplementedError for other models.
    """
    found = _model.transformers(model)
    settings = _plan(tile_shape, order, sparsity, topk, schedule, dense_steps, dense_layers, fused,
                     min(len(transformer.blocks) for transformer, _ in found))
    # Everything is read and checked before any model is changed.
    changes = [_gates.change(gates, transformer, wrappers, settings.tile_shape, settings.order)
               for transformer, wrappers in found]
    report = VsaReport(num_gates=sum(change.num_gates for change in changes))
    state = _call.State(settings, report, Steps())
    processors = [[VsaWanProcessor(_dense(block), layer, settings, report)
                   for layer, block in enumerate(transformer.blocks)] for transformer, _ in found]
    for (transformer, _), change, new in zip(found, changes, processors):
        _remove(transformer)
        change.apply(transformer, settings.tile_shape if settings.order == "raster" else None)
        for block, processor in zip(transformer.blocks, new):
            block.attn1.set_processor(processor)
            if fused:
                _block.install(block)
        _call.install(transformer, state)
    return report


def disable_vsa(model, *, drop_gates=False, keep_gates=False):
    """Brings back the attention that the model had before enable_vsa.

    A model with gates computes something else without them. So it needs drop_gates=True, which removes the gates, or
    keep_gates=True, which leaves them in the model, unused, for the next enable_vsa and for saving. For dense attention
    with the gates call enable_vsa(model, sparsity=0).
    Raises ValueError, and NotImplementedError for other models.
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
    """States the step of all calls of a model inside of it, in a sampling loop of your own:

        for i, t in enumerate(timesteps):
            with vsa_step(model, i):  # around all calls of the step: both halves of guidance
                noise = model(latents, t.expand(2), prompts)

    model  what was passed to enable_vsa
    step   the number of the step within the run; step 0 begins a new run

    It holds for calls in the same thread, and takes precedence over what a pipeline says.
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
        _block.remove(block)
    _call.remove(transformer)
