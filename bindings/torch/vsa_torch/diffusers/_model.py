"""Finds the Wan transformers in what enable_vsa is given: a model, whatever wraps it, or a pipeline."""

import torch
from diffusers import WanTransformer3DModel


def transformers(model):
    """[(transformer, the modules that wrap it)] of a model or a pipeline; Wan 2.2 has two. Raises
    NotImplementedError for what has none."""
    parts = [model] if isinstance(model, torch.nn.Module) else [
        getattr(model, name, None) for name in ("transformer", "transformer_2")]
    parts = [part for part in parts if part is not None]
    if not parts:
        _refuse(model)
    return [_unwrapped(part) for part in parts]


def _unwrapped(module):
    wrappers = []
    while not isinstance(module, WanTransformer3DModel):
        wrappers.append(module)
        module = _inner(module)
        if module is None:
            _refuse(wrappers[0])
    return module, wrappers


def _inner(module):
    """What torch.compile, DistributedDataParallel, DataParallel, FSDP or peft wrapped; None if it is not a wrapper."""
    for name in ("_orig_mod", "module", "_fsdp_wrapped_module"):
        inner = getattr(module, name, None)
        if isinstance(inner, torch.nn.Module):
            return inner
    return module.get_base_model() if hasattr(module, "get_base_model") else None


def _refuse(model):
    raise NotImplementedError(f"[enable_vsa] model: expected a WanTransformer3DModel or a pipeline with one, got "
                              f"{type(model).__name__}")
