#!/bin/sh
# Builds the GPU bench and runs it: JSON lines into out/bench-gpu.jsonl, a table to stderr. Where
# PyTorch sees the GPU, its dense attention comes after it.
# usage: tools/bench_gpu.sh [options of cmake --build]
# CASES (a regular expression that case names match) and REPEATS (default 20) choose.
set -eu
cd "$(dirname "$0")/.."
if ! command -v "${CUDACXX:-nvcc}" > /dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  echo "bench-gpu: error: expected a CUDA toolkit of 12.5 or later, found no nvcc" >&2
  echo "hint: PATH, CUDACXX and /usr/local/cuda are searched" >&2
  exit 3
fi
tools/install_deps.sh build
cmake --preset release -DVSA_CUDA=ON -DVSA_BUILD_BENCH=ON --log-level=WARNING
cmake --build --preset release --target vsa_gpu_bench "$@"
mkdir -p out
build/bench/vsa_gpu_bench "${CASES:-}" "${REPEATS:-20}" > out/bench-gpu.jsonl
if python3 -c "import torch; torch.cuda.init()" 2> /dev/null; then
  python3 bench/gpu/dense_torch.py >> out/bench-gpu.jsonl
else
  echo "bench-gpu: dense attention left out: no PyTorch that sees a GPU" >&2
fi
echo "out/bench-gpu.jsonl"
