"""Puts vsa's operator in the place of FastVideo's attention backend VIDEO_SPARSE_ATTN, and takes it out again."""

import dataclasses
import importlib
import inspect
import threading

from vsa_torch.compat import _fastvideo_raster as raster

# A version that is not listed may have the same signatures and a different meaning of their arguments.
VERSIONS = ("0.1.4", "0.1.5", "0.1.6", "0.1.7", "0.2.0", "0.2.1")

_FIELDS = ("VSA_sparsity", "dit_seq_shape", "num_tiles", "total_seq_length", "variable_block_sizes")
_lock = threading.Lock()


def install():
    """Replaces FastVideo's implementation of its backend VIDEO_SPARSE_ATTN by vsa's operator on raster order.

    Tokens are not moved: preprocess_qkv and postprocess_output return what they are given, and forward calls
    vsa_torch.video_sparse_attention with the grid, the tile and the number of kept tiles that FastVideo's metadata
    state. On one rank DistributedAttention_VSA concatenates and copies nothing either; with sequence parallelism its
    all-to-all of one concatenated tensor stays. Methods of FastVideo's own classes are replaced, so layers that exist
    already follow, too; the metadata and their builder are left as they are. Inference and training, without a break
    in torch.compile (unless FASTVIDEO_DISABLE_ATTENTION_COMPILE asks for one).

    The result is fine + gate_compress * coarse, as FastVideo's; a gate of None is 0. A subclass of the implementation
    that overrides one of its three methods keeps FastVideo's tile order and kernels.

    Imports FastVideo. May be called twice and from several threads, but not while a model runs.
    Raises ImportError where FastVideo is missing; NotImplementedError, with what was expected and found, for a
    FastVideo that is not known; RuntimeError where something else has replaced some of the methods.
    """
    with _lock:
        backend, layer = _import("install")
        if _is_installed("install", backend, layer):
            return
        _check_layout(backend, layer)
        for (owner, name), replacement in raster.replacements(backend, layer).items():
            replacement.vsa_original = vars(owner)[name]
            setattr(owner, name, replacement)


def uninstall():
    """Puts FastVideo's own methods back. Does nothing where install() was not called; not while a model runs.

    Raises as install().
    """
    with _lock:
        backend, layer = _import("uninstall")
        if _is_installed("uninstall", backend, layer):
            for owner, name in raster.targets(backend, layer):
                setattr(owner, name, vars(owner)[name].vsa_original)


def _import(operation):
    """(backend, layer): FastVideo's two modules, of a version that is known."""
    try:
        version = importlib.import_module("fastvideo.version").__version__
    except ModuleNotFoundError as e:
        if e.name not in ("fastvideo", "fastvideo.version"):
            raise  # FastVideo is installed, but something that it needs is missing
        raise ImportError(f"[{operation}] fastvideo: expected FastVideo, found no package of this name that states a "
                          "version; pip install fastvideo") from e
    if version not in VERSIONS:
        raise NotImplementedError(f"[{operation}] fastvideo: expected version {', '.join(VERSIONS[:-1])} or "
                                  f"{VERSIONS[-1]}, got {version}; of another version replace the kernels alone, "
                                  "see vsa_torch.compat.fastvideo")
    return (importlib.import_module("fastvideo.attention.backends.video_sparse_attn"),
            importlib.import_module("fastvideo.attention.layer"))


def _is_installed(operation, backend, layer):
    """Whether the methods are those of install(): all or none of them, unless other code has replaced some since."""
    targets = raster.targets(backend, layer)
    others = [f"{owner.__name__}.{name}" for owner, name in targets
              if not hasattr(vars(owner).get(name), "vsa_original")]
    if others and len(others) < len(targets):
        raise RuntimeError(f"[{operation}] {', '.join(others)}: expected what install() put there, got another's; "
                           "undo that first")
    return not others


def _check_layout(backend, layer):
    """The methods take the arguments, and the metadata have the fields, that are known."""
    for (owner, name), layouts in raster.targets(backend, layer).items():
        method = vars(owner).get(name)
        got = None if method is None else tuple(inspect.signature(method).parameters)[1:]
        if got not in layouts:
            _refuse_layout(f"{owner.__name__}.{name}", " or ".join(f"({', '.join(names)})" for names in layouts),
                           "no such method" if got is None else f"({', '.join(got)})")
    fields = [field.name for field in dataclasses.fields(backend.VideoSparseAttentionMetadata)]
    if not set(_FIELDS) <= set(fields):
        _refuse_layout("VideoSparseAttentionMetadata", f"the fields {', '.join(_FIELDS)}", ", ".join(fields))


def _refuse_layout(name, expected, got):
    raise NotImplementedError(f"[install] {name}: expected {expected}, as in FastVideo {VERSIONS[0]} to "
                              f"{VERSIONS[-1]}, got {got}: this FastVideo was changed")
