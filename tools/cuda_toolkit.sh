#!/bin/sh
# cuda_toolkit.sh FOLDER: prints the nvcc to build with: the machine's or, where it has none, that of a toolkit from PyPI
# in FOLDER (2 GB, a minute), with its libraries. Where that cannot be had, says why on stderr and fails.
set -u
command -v "${CUDACXX:-nvcc}" && exit 0
cd "$(dirname "$0")/.." || exit 1
python=$(tools/venv.sh "$1" tools/cuda-requirements.txt 4 "nvidia.cu13, nvidia.cudnn, nvidia.nccl") || exit 1
cuda=$("$python" -c 'import nvidia.cu13; print(*nvidia.cu13.__path__)')
# The names that CMake looks for.
ln -sfn lib "$cuda/lib64" && ln -sf libcudart.so.13 "$cuda/lib/libcudart.so" && echo "$cuda/bin/nvcc"
