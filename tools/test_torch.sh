#!/bin/sh
# test_torch.sh PYTHON JOBS [OLDEST]: builds the PyTorch operators for that Python and runs tests/torch and
# training/tests; with the Python OLDEST, which has an older PyTorch, the same build and the tests of the operators.
# Where it has no PyTorch or no pytest this says so and passes: nothing else of vsa.cpp needs them.
set -eu
cd "$(dirname "$0")/.."
python=$1
if ! missing=$("$python" -c 'import torch, pytest' 2>&1); then
  echo "test-torch: SKIPPED, $python has no PyTorch or no pytest ($(echo "$missing" | tail -n 1));" \
    "use make test-torch PYTHON=path/to/python"
  exit 0
fi
# In the tree of the other tests, so that libvsa is compiled once.
cmake --preset release -DVSA_BUILD_TORCH=ON -DPython_EXECUTABLE="$(command -v "$python")" --log-level=WARNING
cmake --build --preset torch -j "$2"
cmake --install build --component vsa_torch --prefix build/site >/dev/null
PYTHONPATH=build/site VSA_LIBRARY=build/src/libvsa.so "$python" -m pytest -m "not gpu"
if [ -n "${3:-}" ]; then
  # What depends on PyTorch's version: the operators. What is above them sees Python alone, and diffusers has a version
  # of its own.
  operators=$(for name in attention bad_input compat_aiter compile errors hostile_arguments host_cost lists \
    passes registration stages; do echo "tests/torch/test_$name.py"; done)
  # shellcheck disable=SC2086  # a list of files
  PYTHONPATH=build/site "$3" -m pytest -m "not gpu" $operators
fi
if missing=$("$python" -c 'import diffusers, matplotlib, numpy, PIL, safetensors, sentencepiece' 2>&1); then
  PYTHONPATH=build/site "$python" -m pytest training/tests
else
  echo "test-torch: training/tests SKIPPED, $(echo "$missing" | tail -n 1)"
fi
