#!/bin/sh
# Builds libvsa and runs the GPU bench: JSON lines into out/bench-gpu.jsonl, tables into
# out/bench-gpu.md. Where PYTHON (default python3) has a PyTorch that sees the GPU, one process compares
# all contestants (bench/gpu/contestants.py); elsewhere vsa_gpu_bench times this library alone.
# usage: tools/bench_gpu.sh [options of cmake --build]
# CASES (a regular expression that case names match), REPEATS (default 24) and PASSES (forward or
# backward, default forward) choose.
set -eu
cd "$(dirname "$0")/.."
if ! command -v "${CUDACXX:-nvcc}" > /dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  echo "bench-gpu: error: expected a CUDA toolkit of 12.5 or later, found no nvcc" >&2
  echo "hint: PATH, CUDACXX and /usr/local/cuda are searched" >&2
  exit 3
fi
tools/install_deps.sh build
cmake --preset release -DVSA_CUDA=ON -DVSA_BUILD_BENCH=ON --log-level=WARNING
cmake --build --preset release --target vsa_gpu_bench vsa_shared "$@"
mkdir -p out
run=out/bench-gpu.jsonl
python=${PYTHON:-python3}
if "$python" -c "import torch; torch.cuda.init()" 2> /dev/null; then
  status=0
  "$python" bench/gpu/contestants.py --cases "${CASES:-}" --repeats "${REPEATS:-24}" \
    --passes "${PASSES:-forward}" > "$run" || status=$?
  "$python" bench/gpu/table.py "$run" | tee out/bench-gpu.md
  echo "$run, out/bench-gpu.md"
  exit "$status"
fi
echo "bench-gpu: this library alone: $python has no PyTorch that sees a GPU" >&2
build/bench/vsa_gpu_bench "${CASES:-}" "${REPEATS:-24}" > "$run"
echo "$run"
