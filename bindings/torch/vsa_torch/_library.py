"""Loads the shared library with the operators of torch.ops.vsa."""

from pathlib import Path

import torch

_LEAST = (2, 10)  # the stable ABI that the library was built for

_found = tuple(int(part) for part in torch.__version__.split(".")[:2])
if _found < _LEAST:
    raise ImportError(f"vsa_torch needs PyTorch {_LEAST[0]}.{_LEAST[1]} or later, found {torch.__version__}")
torch.ops.load_library(Path(__file__).with_name("_vsa_ops.so"))
