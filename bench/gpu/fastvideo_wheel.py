"""FastVideo's own attention layer, from its wheel, without the many packages that the rest of FastVideo needs.

`fastvideo` is made a package that does not run its __init__, and two of its modules are stand-ins: `fastvideo.utils`,
which imports torchvision and others, and the choice of a platform, which asks for NVML. The attention layer, its backend,
the forward context and the parallel state are FastVideo's.
"""

import importlib
import importlib.machinery
import sys
import types

import torch

BACKEND = "fastvideo.attention.backends.video_sparse_attn"


class OneRank:
    """In the place of the sequence-parallel group: what GroupCoordinator is on one rank."""

    world_size, rank_in_group = 1, 0

    def all_to_all_4D(self, x, scatter_dim=2, gather_dim=1):
        return x


def load(path=None):
    """Puts FastVideo's modules from `path`, a wheel or a folder (None: sys.path), into sys.modules.

    Returns a namespace with its version and the modules backend, layer, context, parallel, which work on when others are
    loaded; ImportError where there is none. unload() takes them out of sys.modules.
    """
    unload()
    spec = importlib.machinery.PathFinder.find_spec("fastvideo", None if path is None else [str(path)])
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"no package fastvideo in {'sys.path' if path is None else path}")
    root = list(spec.submodule_search_locations)
    _module("fastvideo", root).__spec__.loader = spec.loader
    # The backend is that of this load, also when another was loaded since.
    _module("fastvideo.utils", STR_BACKEND_ENV_VAR="FASTVIDEO_ATTENTION_BACKEND",
            resolve_obj_by_qualname=lambda _: found.backend.VideoSparseAttentionBackend,
            get_compute_dtype=lambda: torch.bfloat16)
    platforms = _module("fastvideo.platforms", [f"{folder}/platforms" for folder in root])
    interface = importlib.import_module("fastvideo.platforms.interface")
    platforms.AttentionBackendEnum = interface.AttentionBackendEnum
    platforms.current_platform = types.SimpleNamespace(
        device_name="stand-in", get_attn_backend_cls=lambda *_: BACKEND)
    found = types.SimpleNamespace(
        version=importlib.import_module("fastvideo.version").__version__,
        layer=importlib.import_module("fastvideo.attention.layer"),
        backend=importlib.import_module(BACKEND),
        context=importlib.import_module("fastvideo.forward_context"),
        parallel=importlib.import_module("fastvideo.distributed.parallel_state"))
    found.parallel._SP = OneRank()
    return found


def unload():
    for name in [name for name in sys.modules if name.split(".")[0] == "fastvideo"]:
        del sys.modules[name]


def attention(fastvideo, heads, head_dim):
    """A DistributedAttention_VSA as a Wan block has it."""
    backends = (fastvideo.layer.AttentionBackendEnum.VIDEO_SPARSE_ATTN,)
    return fastvideo.layer.DistributedAttention_VSA(
        num_heads=heads, head_size=head_dim, causal=False, supported_attention_backends=backends,
        prefix="blocks.0.attn1")


def metadata(fastvideo, grid, sparsity, device):
    """What FastVideo's own builder makes for a video of `grid` tokens."""
    return fastvideo.backend.VideoSparseAttentionMetadataBuilder().build(
        current_timestep=0, raw_latent_shape=(grid[0], 2 * grid[1], 2 * grid[2]), patch_size=(1, 2, 2),
        VSA_sparsity=sparsity, device=device)


def _module(name, path=None, **contents):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=path is not None)
    if path is not None:
        module.__path__ = path
    vars(module).update(contents)
    sys.modules[name] = module
    if "." in name:
        parent, _, child = name.rpartition(".")
        setattr(sys.modules[parent], child, module)
    return module
