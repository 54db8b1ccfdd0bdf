#!/bin/sh
# torch_run.sh MODULE [ARGUMENTS...]: in a folder of tools/torch_bundle.sh, runs `python -m MODULE`, such as pytest or
# training.dit.experiment, with PYTHON (default python3), which has PyTorch. Wheels in wheels/ are unpacked first.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
for wheel in wheels/*.whl; do
  [ ! -e "$wheel" ] || { "$python" -m zipfile -e "$wheel" site && rm "$wheel"; }
done
# The libraries of this folder come last, so that those that PyTorch brings along stay in use.
LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$PWD/lib" PYTHONPATH=$PWD/site VSA_LIBRARY=$PWD/libvsa.so \
  exec "$python" -m "$@"
