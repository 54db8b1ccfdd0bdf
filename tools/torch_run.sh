#!/bin/sh
# torch_run.sh [PYTEST ARGUMENTS...]: in a folder of tools/torch_bundle.sh, runs tests/torch with PYTHON (default
# python3), which has PyTorch and pytest. Wheels in wheels/ are unpacked beside the package.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
for wheel in wheels/*.whl; do
  [ ! -e "$wheel" ] || "$python" -m zipfile -e "$wheel" site
done
# The libraries of this folder come last, so that those that PyTorch brings along stay in use.
LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$PWD/lib" PYTHONPATH=$PWD/site VSA_LIBRARY=$PWD/libvsa.so \
  exec "$python" -m pytest "$@"
