#!/bin/sh
# test_torch.sh PYTHON JOBS: builds the PyTorch operators for that Python and runs tests/torch and training/tests.
# Where it has no PyTorch or no pytest this says so and passes: nothing else of vsa.cpp needs them.
set -eu
cd "$(dirname "$0")/.."
python=$1
if ! missing=$("$python" -c 'import torch, pytest' 2>&1); then
  echo "test-torch: SKIPPED, $python has no PyTorch or no pytest ($(echo "$missing" | tail -n 1));" \
    "use make test-torch PYTHON=path/to/python"
  exit 0
fi
cmake --preset torch -DPython_EXECUTABLE="$(command -v "$python")" --log-level=WARNING
cmake --build --preset torch -j "$2"
cmake --install build-torch --component vsa_torch --prefix build-torch/site >/dev/null
PYTHONPATH=build-torch/site VSA_LIBRARY=build-torch/src/libvsa.so "$python" -m pytest -m "not gpu"
if missing=$("$python" -c 'import diffusers, matplotlib, numpy, PIL, safetensors, sentencepiece' 2>&1); then
  PYTHONPATH=build-torch/site "$python" -m pytest training/tests
else
  echo "test-torch: training/tests SKIPPED, $(echo "$missing" | tail -n 1)"
fi
