"""libvsa through its C ABI, for torch tensors: what bench/gpu/contestants.py times. No wrapper is timed.

Tensors are [B, S, H, D] unless said; every call is prepared once (structs, workspace) and then only
enqueued: `call()` returns before the device is done.
"""

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int32, c_int64, c_size_t, c_void_p, sizeof
from pathlib import Path

import torch

BACKENDS = {"reference": 0, "cpu": 1, "cuda": 2}
ROUNDING_BF16 = 1  # of the coarse stage
NORM_OVER_ALL_HEADS = 2
DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3}


class Context(Structure):
    _fields_ = [("struct_size", c_size_t), ("backend", c_int32), ("num_threads", c_int32), ("stream", c_void_p),
                ("workspace", c_void_p), ("workspace_bytes", c_int64), ("workspace_query", POINTER(c_int64))]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("shape", c_int64 * 4), ("stride", c_int64 * 4)]


class Gate(Structure):
    _fields_ = [("kind", c_int32), ("constant", c_float), ("tensor", Tensor)]


class Lut(Structure):
    _fields_ = [("index", c_void_p), ("count", c_void_p), ("batch", c_int64), ("num_heads", c_int64),
                ("num_q_tiles", c_int64), ("pitch", c_int64)]


class SelectOptions(Structure):
    _fields_ = [("topk", c_int64), ("forced_columns", c_void_p), ("num_forced_columns", c_int64),
                ("dense_rows", c_void_p), ("num_dense_rows", c_int64)]


class Scale(Structure):
    _fields_ = [("is_set", c_int32), ("value", c_float)]


class PlanInfo(Structure):
    _fields_ = [("struct_size", c_size_t)] + [(name, c_int64) for name in (
        "num_tiles", "num_prefix_tiles", "tile_tokens", "seq_len", "num_valid_tokens", "padded_len")]


class BackendInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("backend", c_int32), ("available", c_int32),
                ("name", ctypes.c_char * 16), ("detail", ctypes.c_char * 256)]


def _args(*fields):
    return type("Args", (Structure,), {"_fields_": [("struct_size", c_size_t), *fields]})


ARGS = {
    "tile": _args(("x", Tensor), ("plan", c_void_p), ("tiled", Tensor)),
    "untile": _args(("tiled", Tensor), ("plan", c_void_p), ("x", Tensor)),
    "norm_rope_pool": _args(("x", Tensor), ("plan", c_void_p), ("norm", c_int32), ("eps", c_float), ("weight", Tensor),
                            ("rstd", Tensor), ("cos", Tensor), ("sin", Tensor), ("pooled", Tensor)),
    "combine": _args(("fine_out", Tensor), ("coarse_out", Tensor), ("gate_coarse", Gate), ("gate_fine", Gate),
                     ("q_plan", c_void_p), ("out", Tensor)),
    "pool": _args(("x", Tensor), ("plan", c_void_p), ("pooled", Tensor)),
    "coarse": _args(("q_pooled", Tensor), ("k_pooled", Tensor), ("v_pooled", Tensor), ("kv_plan", c_void_p),
                    ("scale", Scale), ("rounding", c_int32), ("coarse_scores", Tensor), ("coarse_out", Tensor)),
    "select": _args(("coarse_scores", Tensor), ("options", SelectOptions), ("lut", Lut)),
    "fine": _args(("q", Tensor), ("k", Tensor), ("v", Tensor), ("q_plan", c_void_p), ("kv_plan", c_void_p),
                  ("lut", Lut), ("scale", Scale), ("out", Tensor), ("lse", Tensor), ("last_key_repeats", c_int64)),
    "attention_forward": _args(
        ("q", Tensor), ("k", Tensor), ("v", Tensor), ("gate_coarse", Gate), ("gate_fine", Gate),
        ("q_plan", c_void_p), ("kv_plan", c_void_p), ("select", SelectOptions), ("lut", Lut), ("scale", Scale),
        ("rounding", c_int32), ("q_pooled", Tensor), ("k_pooled", Tensor), ("v_pooled", Tensor), ("coarse_out", Tensor),
        ("out", Tensor), ("lse", Tensor), ("fine_out", Tensor), ("lut_out", Lut)),
    "pool_backward": _args(("dpooled", Tensor), ("plan", c_void_p), ("dx", Tensor)),
    "coarse_backward": _args(
        ("q_pooled", Tensor), ("k_pooled", Tensor), ("v_pooled", Tensor), ("kv_plan", c_void_p), ("scale", Scale),
        ("dcoarse_out", Tensor), ("dq_pooled", Tensor), ("dk_pooled", Tensor), ("dv_pooled", Tensor)),
    "fine_backward": _args(
        ("q", Tensor), ("k", Tensor), ("v", Tensor), ("q_plan", c_void_p), ("kv_plan", c_void_p), ("lut", Lut),
        ("scale", Scale), ("out", Tensor), ("lse", Tensor), ("dout", Tensor), ("dq", Tensor), ("dk", Tensor),
        ("dv", Tensor)),
    "combine_backward": _args(
        ("fine_out", Tensor), ("coarse_out", Tensor), ("gate_coarse", Gate), ("gate_fine", Gate), ("q_plan", c_void_p),
        ("dout", Tensor), ("dfine_out", Tensor), ("dcoarse_out", Tensor), ("dgate_coarse", Tensor),
        ("dgate_fine", Tensor)),
    "attention_backward": _args(
        ("q", Tensor), ("k", Tensor), ("v", Tensor), ("gate_coarse", Gate), ("gate_fine", Gate),
        ("q_plan", c_void_p), ("kv_plan", c_void_p), ("lut", Lut), ("scale", Scale), ("lse", Tensor),
        ("fine_out", Tensor), ("dout", Tensor), ("dq", Tensor), ("dk", Tensor), ("dv", Tensor),
        ("dgate_coarse", Tensor), ("dgate_fine", Tensor)),
}


def bshd(x):
    """A view of a torch tensor [B, S, H, D]."""
    return _view(x.transpose(1, 2))


def bhsd(x):
    """A view of a torch tensor [B, H, S, D]."""
    return _view(x)


def _view(x):
    return Tensor(x.data_ptr(), DTYPES[x.dtype], (c_int64 * 4)(*x.shape), (c_int64 * 4)(*x.stride()))


def lut(lists):
    """A table: int32 lists.index [B, H, Nq, pitch] and lists.count [B, H, Nq]."""
    return Lut(lists.index.data_ptr(), lists.count.data_ptr(), *lists.index.shape)


ONE = Gate(1, 1.0)


def gate(x):
    return Gate(2, 0.0, bshd(x))


class Library:
    """libvsa on one backend; raises RuntimeError with the library's own text."""

    def __init__(self, path, backend, device, stream=None):
        path = Path(path).resolve()
        # Of a bundle, what the machine may lack; its libstdc++ stays out, PyTorch has one of its own.
        for needed in ("libgomp.so.1", "libfmt.so.9", "libhwy.so.1"):
            if (path.parent / "lib" / needed).exists():
                ctypes.CDLL(str(path.parent / "lib" / needed), mode=ctypes.RTLD_GLOBAL)
        self._c = ctypes.CDLL(str(path))
        for name in ("vsa_last_error", "vsa_version"):
            getattr(self._c, name).restype = c_char_p
        self._c.vsa_plan_destroy.argtypes, self._c.vsa_plan_destroy.restype = [c_void_p], None
        self._c.vsa_plan_get_info.argtypes = [c_void_p, c_void_p]
        self._c.vsa_plan_get_tile.argtypes = [c_void_p, c_int64, c_void_p, c_void_p]
        self.backend = backend
        self._backend, self._device, self._stream = BACKENDS[backend], device, stream
        self.version = self._c.vsa_version().decode()
        info = BackendInfo(struct_size=sizeof(BackendInfo))
        self._check(self._c.vsa_get_backend_info(self._backend, byref(info)))
        if not info.available:
            raise RuntimeError(f"backend {backend}: {info.detail.decode()}")

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self._c.vsa_last_error().decode())

    def plan(self, grid, tile_shape):
        return Plan(self, grid, tile_shape)

    def topk(self, kept, num_tiles):
        topk = c_int64()
        self._check(self._c.vsa_topk_from_sparsity(ctypes.c_double(1.0 - kept), c_int64(num_tiles), byref(topk)))
        return topk.value

    def prepare(self, name, **members):
        """The call vsa_<name>, with a workspace of its own: a function that enqueues it."""
        args = ARGS[name](struct_size=sizeof(ARGS[name]), **members)
        function = getattr(self._c, f"vsa_{name}")
        needed = c_int64(0)
        query = Context(struct_size=sizeof(Context), backend=self._backend, workspace_query=ctypes.pointer(needed))
        self._check(function(byref(query), byref(args)))
        workspace = torch.empty(max(needed.value, 256), dtype=torch.uint8, device=self._device)
        context = Context(struct_size=sizeof(Context), backend=self._backend, stream=self._stream,
                          workspace=workspace.data_ptr(), workspace_bytes=needed.value)

        def call():
            self._check(function(byref(context), byref(args)))

        call.workspace = workspace  # lives as long as the call
        return call


class Plan:
    """Tiles of a grid {f, h, w}: `pointer` for calls, `tokens[i]` the positions of tile i, `info`."""

    def __init__(self, library, grid, tile_shape):
        self._library = library
        self.pointer = c_void_p()
        c = library._c
        library._check(c.vsa_plan_create_grid((c_int64 * 3)(*grid), (c_int64 * 3)(*tile_shape), byref(self.pointer)))
        self.info = PlanInfo(struct_size=sizeof(PlanInfo))
        library._check(c.vsa_plan_get_info(self.pointer, byref(self.info)))
        self.tokens = [self._tile(i) for i in range(self.info.num_tiles)]
        self.tile_len = torch.tensor([len(t) for t in self.tokens], dtype=torch.int32)

    def _tile(self, i):
        data, count = POINTER(c_int32)(), c_int64()
        self._library._check(self._library._c.vsa_plan_get_tile(self.pointer, i, byref(data), byref(count)))
        return torch.tensor(data[:count.value], dtype=torch.int64)

    def __del__(self):
        if self.pointer:
            self._library._c.vsa_plan_destroy(self.pointer)
