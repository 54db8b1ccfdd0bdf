"""Loads the shared library with the operators of torch.ops.vsa."""

from pathlib import Path

import torch

_LEAST = (2, 10)  # the stable ABI that the library was built for

FORWARD = ("video_sparse_attention", "coarse_select", "block_sparse_attention", "tile", "untile")
IN_PLACE = ("norm_rope_pool", "residual_norm")  # for inference: they change their first argument
BACKWARD = ("video_sparse_attention_backward", "coarse_select_backward", "block_sparse_attention_backward")

_found = tuple(int(part) for part in torch.__version__.split(".")[:2])
if _found < _LEAST:
    raise ImportError(f"vsa_torch needs PyTorch {_LEAST[0]}.{_LEAST[1]} or later, found {torch.__version__}")
torch.ops.load_library(Path(__file__).with_name("_vsa_ops.so"))

from vsa_torch._errors import translate_errors_of  # noqa: E402  after the check of the version

for _name in (*FORWARD, *IN_PLACE, *BACKWARD, "inference", "implements"):
    translate_errors_of(getattr(torch.ops.vsa, _name))
