#!/bin/sh
# Builds libvsa and runs the GPU bench. Where PYTHON (default python3) has a PyTorch that sees the GPU, one
# process compares this library with others (bench/gpu/contestants.py): JSON lines into out/bench-gpu.jsonl and,
# compressed, out/bench-gpu.jsonl.gz; tables into out/bench-gpu.md and to stdout. Elsewhere `vsa bench` times this
# library alone on the cases of bench/gpu.txt: JSON lines into out/bench-gpu.jsonl, no tables.
# usage: tools/bench_gpu.sh [options of cmake --build]
# CASES and OTHERS (regular expressions that names match; . for all), REPEATS (default 24) and PASSES (forward,
# backward or both; what includes backward needs PyTorch) choose; the default is what docs/performance.md shows.
# Exit status 1: something was wrong or failed; 2: a choice is not possible; 3: nvcc, a GPU or PyTorch is missing.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
passes=${PASSES:-}

# refuse STATUS TEXT
refuse() {
  echo "bench-gpu: error: $2" >&2
  exit "$1"
}

case $passes in
  "" | forward | backward | both) ;;
  *) refuse 2 "PASSES: expected forward, backward or both, got $passes" ;;
esac
if ! command -v "${CUDACXX:-nvcc}" > /dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  refuse 3 "expected a CUDA toolkit of 12.5 or later, found no nvcc in PATH, CUDACXX or /usr/local/cuda"
fi
torch=no
"$python" -c "import torch; torch.cuda.init()" 2> /dev/null && torch=yes
if [ $torch = no ]; then
  nvidia-smi -L 2> /dev/null | grep -q '^GPU ' ||
    refuse 3 "expected an NVIDIA GPU, found none: neither nvidia-smi nor PyTorch in $python sees one"
  [ -z "$passes" ] || [ "$passes" = forward ] ||
    refuse 3 "PASSES=$passes needs a PyTorch that sees the GPU, $python has none (PYTHON names another)"
fi

tools/install_deps.sh build
cmake --preset release -DVSA_CUDA=ON --log-level=WARNING
cmake --build --preset release --target vsa_cli vsa_shared "$@"
mkdir -p out
run=out/bench-gpu.jsonl
rm -f "$run" "$run.gz" out/bench-gpu.md # none of another run beside those of this one
if [ $torch = no ]; then
  echo "bench-gpu: this library alone: $python has no PyTorch that sees a GPU" >&2
  names=$(build/cli/vsa bench --list --cases bench/gpu.txt | grep -E -- "${CASES:-.}") ||
    refuse 2 "CASES: expected a regular expression that a case of bench/gpu.txt matches, got $CASES"
  # shellcheck disable=SC2086  # names are words
  build/cli/vsa bench --backend cuda --cases bench/gpu.txt $(printf ' --case %s' $names) \
    --repeats "${REPEATS:-24}" --json > "$run"
  echo "$run"
  exit
fi
status=0
"$python" bench/gpu/contestants.py --page ${CASES:+--cases "$CASES"} ${OTHERS:+--others "$OTHERS"} \
  ${passes:+--passes "$passes"} --repeats "${REPEATS:-24}" > "$run" || status=$?
[ -s "$run" ] || exit "$status"
gzip -9 -n -k "$run"
"$python" bench/gpu/table.py "$run.gz" ${CASES:+--cases "$CASES"} | tee out/bench-gpu.md
echo "$run, $run.gz, out/bench-gpu.md"
exit "$status"
