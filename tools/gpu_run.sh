#!/bin/bash
# Runs a bundle (tools/gpu_bundle.sh) on a machine with a GPU: tests in groups that cannot hang longer
# than their limit, then the bench. Results go to $OUT (default: out), the tests' logs there into one
# logs.tgz; a short summary to stdout.
# usage: gpu_run.sh [tests] [bench FILTER REPEATS] [dense] [sanitize]
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-out}
mkdir -p "$out"
logs=$(mktemp -d)
trap 'tar -czf "$out/logs.tgz" -C "$logs" . && rm -rf "$logs"' EXIT
export OMP_WAIT_POLICY=passive

# The bundle's libraries are for the bundle's programs alone.
ours() { LD_LIBRARY_PATH=$here/lib:${LD_LIBRARY_PATH:-} "$@"; }

# group NAME LIMIT PROGRAM FILTER: 8 processes share the tests, each ends after LIMIT seconds.
group() {
  local pids=() failed=0
  for shard in 0 1 2 3 4 5 6 7; do
    GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX=$shard ours timeout -s KILL "$2" "$here/$3" \
      --gtest_filter="$4" > "$logs/$1.$shard.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
  echo "tests $1: $(cat "$logs/$1".*.log | grep -c '^\[       OK') passed," \
    "$(cat "$logs/$1".*.log | grep -c '^\[  FAILED  \].*ms)$') failed," \
    "$(cat "$logs/$1".*.log | grep -c '^\[  SKIPPED \].*ms)$') skipped, $failed of 8 processes failed"
  grep -hE '^\[  FAILED  \].*ms\)$' "$logs/$1".*.log | head -12
  grep -hE -A9 'Failure$|terminate|CUDA error|what\(\)' "$logs/$1".*.log | cut -c1-300 | head -40
}

while [ $# -gt 0 ]; do
  case $1 in
    tests)
      group stages 40 gpu_tests '*GpuStages.*-*GpuStages.Fine/*'
      group fine 40 gpu_tests '*GpuStages.Fine/*'
      group rest 60 gpu_tests '*GpuAttention*:GpuBehaviour.*:*GpuNormRopePool*:GpuCli.*'
      [ ! -x "$here/vsa" ] || VSA_TEST_CLI=$here/vsa group cli 60 cli_tests 'CliCuda.*'
      ;;
    bench)
      ours timeout -s KILL 100 "$here/vsa_gpu_bench" "$2" "$3" > "$out/bench.jsonl" 2> "$out/bench.txt"
      echo "bench: exit $?"
      tail -80 "$out/bench.txt"
      shift 2
      ;;
    dense)
      timeout -s KILL 60 python3 "$here/dense_torch.py" > "$out/dense.jsonl" 2> "$out/dense.txt"
      echo "dense: exit $?"
      cat "$out/dense.jsonl"
      ;;
    sanitize)
      for tool in memcheck racecheck synccheck initcheck; do
        ours timeout -s KILL 100 compute-sanitizer --tool "$tool" "$here/gpu_tests" \
          --gtest_filter='*GpuStages.Fine/D64_edges' > "$logs/$tool.log" 2>&1
        echo "$tool: exit $?, $(tail -1 "$logs/$tool.log")"
      done
      ;;
    *)
      echo "gpu_run.sh: error: expected tests, bench, dense or sanitize, got $1" >&2
      exit 2
      ;;
  esac
  shift
done
