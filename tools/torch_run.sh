#!/bin/sh
# torch_run.sh MODULE [ARGUMENTS...]: in a folder of tools/torch_bundle.sh, runs `python -m MODULE`, such as pytest,
# training.dit.experiment or a program of bench/gpu (fastvideo_layer), with PYTHON (default python3), which has PyTorch.
# Wheels in wheels/ are unpacked first; those of FastVideo in fastvideo/ are for the tests and are not.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
for wheel in wheels/*.whl; do
  [ ! -e "$wheel" ] || { "$python" -m zipfile -e "$wheel" site && rm "$wheel"; }
done
# The libraries of this folder come last, so that those that PyTorch brings along stay in use.
LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$PWD/lib" PYTHONPATH=$PWD/site:$PWD/bench/gpu \
  VSA_LIBRARY=$PWD/libvsa.so VSA_FASTVIDEO_WHEELS=$PWD/fastvideo \
  exec "$python" -m "$@"
