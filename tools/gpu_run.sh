#!/bin/bash
# Runs a bundle (tools/gpu_bundle.sh) on a machine with a GPU: tests in groups that cannot hang longer
# than their limit, then the bench. Results go to $OUT (default: out), the tests' logs there into one
# logs.tgz; a short summary to stdout.
# usage: gpu_run.sh [tests] [large] [page REPEATS SECONDS] [contestants CASES REPEATS SECONDS]
#                   [gradients CASES REPEATS SECONDS] [bench REPEATS OPTIONS] [sanitize] [mutations]
# bench: `vsa bench` with OPTIONS in one word ("--case wan-480p --stage fine").
# page (what docs/performance.md shows), contestants (forward) and gradients need a python3 with PyTorch; no case
# starts after SECONDS.
# Exit status 1 if anything failed.
set -u
status=0
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-out}
mkdir -p "$out"
logs=$(mktemp -d)
trap 'tar -czf "$out/logs.tgz" -C "$logs" . && rm -rf "$logs"' EXIT
export OMP_WAIT_POLICY=passive

# The bundle's libraries are for the bundle's programs alone.
ours() { LD_LIBRARY_PATH=$here/lib:${LD_LIBRARY_PATH:-} "$@"; }

# ended NAME STATUS: says so, and remembers a failure.
ended() {
  echo "$1: exit $2"
  [ "$2" = 0 ] || status=1
}

# group NAME LIMIT PROGRAM FILTER: 8 processes share the tests, each ends after LIMIT seconds.
group() {
  local pids=() failed=0
  for shard in 0 1 2 3 4 5 6 7; do
    GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX=$shard ours timeout -s KILL "$2" "$here/$3" \
      --gtest_filter="$4" > "$logs/$1.$shard.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
  [ $failed = 0 ] || status=1
  echo "tests $1: $(cat "$logs/$1".*.log | grep -c '^\[       OK') passed," \
    "$(cat "$logs/$1".*.log | grep -c '^\[  FAILED  \].*ms)$') failed," \
    "$(cat "$logs/$1".*.log | grep -c '^\[  SKIPPED \].*ms)$') skipped, $failed of 8 processes failed"
  grep -hE '^\[  FAILED  \].*ms\)$' "$logs/$1".*.log | head -12
  grep -hE -A9 'Failure$|terminate|CUDA error|what\(\)' "$logs/$1".*.log | cut -c1-300 | head -40
}

# contestants NAME REPEATS SECONDS OPTION...: rows into NAME.jsonl.gz, their tables into NAME.md.
# Python and PyTorch have libraries of their own: those of the bundle stay out of their path.
contestants() {
  local name=$1 repeats=$2 seconds=$3
  shift 3
  timeout -s KILL $((seconds + 120)) python3 "$here/contestants.py" --library "$here/libvsa.so" \
    --commit "$(cat "$here/COMMIT")" --repeats "$repeats" --budget-s "$seconds" "$@" \
    > "$out/$name.jsonl" 2> "$out/$name.txt"
  ended "$name" $?
  tail -5 "$out/$name.txt"
  gzip -9 -n -f "$out/$name.jsonl"
  python3 "$here/table.py" "$out/$name.jsonl.gz" --cases . | tee "$out/$name.md"
}

while [ $# -gt 0 ]; do
  case $1 in
    tests)
      group stages 40 gpu_tests '*GpuStages.*-*GpuStages.Fine/*'
      group fine 40 gpu_tests '*GpuStages.Fine/*'
      group backward 60 gpu_tests '*GpuBackward*'
      group rest 60 gpu_tests '-*GpuStages.*:*GpuBackward*'
      # The model is that of VSA_TEST_MODEL, or of the checkout that this runs in.
      VSA_TEST_MODEL=${VSA_TEST_MODEL:-$PWD/models/wan-toy} group runtime 120 gpu_runtime_tests '*'
      # The bundle's vsa has no `inspect`, which needs the libraries of video.
      VSA_TEST_CLI=$here/vsa group cli 60 cli_cuda_tests '-CliCuda.Inspect*:CliCuda.Without*'
      ;;
    bench)
      # shellcheck disable=SC2086  # the options are words
      ours timeout -s KILL 500 "$here/vsa" bench --backend cuda --cases "$here/gpu.txt" --repeats "$2" $3 \
        > "$out/bench.txt" 2>&1
      ended bench $?
      cat "$out/bench.txt"
      shift 2
      ;;
    large)
      ours timeout -s KILL 200 "$here/gpu_tests" --gtest_filter='GpuLarge.*' > "$logs/large.log" 2>&1
      ended large $?
      grep -E '^\[ +(OK|FAILED|SKIPPED) .*ms' "$logs/large.log"
      ;;
    page)
      contestants page "$2" "$3" --page
      shift 2
      ;;
    contestants)
      contestants contestants "$3" "$4" --cases "$2" --passes forward
      shift 3
      ;;
    gradients)
      contestants gradients "$3" "$4" --cases "$2" --passes backward
      shift 3
      ;;
    mutations)
      # A bundle of tools/mutate.py --gpu: the named test of each mutant must fail, by an assertion or an error of
      # CUDA, and pass in the program without a mutation.
      export here logs
      missed=0
      cut -f2 "$here/mutants.tsv" | sort -u | paste -sd: > "$logs/filter"
      ours timeout -s KILL 300 "$here/unchanged" --gtest_filter="$(cat "$logs/filter")" > "$logs/unchanged.log" 2>&1
      ended unchanged $?
      # shellcheck disable=SC2016  # expanded by the inner shell
      cut -f1,2 "$here/mutants.tsv" | tr '\t' '\n' | LD_LIBRARY_PATH=$here/lib:${LD_LIBRARY_PATH:-} xargs -n2 -P4 bash -c \
        'timeout -s KILL 120 "$here/$0" --gtest_filter="$1" > "$logs/$0.log" 2>&1; echo $? > "$logs/$0.status"'
      while IFS=$'\t' read -r mutant test name; do
        verdict="noticed by"
        case $(cat "$logs/$mutant.status") in
          0) verdict="MISSED by " ;;
          137) verdict="HANGS in  " ;;
          *) grep -q '^\[ RUN' "$logs/$mutant.log" || verdict="NOT RUN:  " ;;
        esac
        [ "$verdict" = "noticed by" ] || missed=$((missed + 1))
        echo "$name  $verdict  $test"
      done < "$here/mutants.tsv"
      ended "mutations, $missed of $(wc -l < "$here/mutants.tsv") missed" $missed
      ;;
    sanitize)
      # Every kernel on a small case: all stages and ways through the operator, both head_dims, tiles of
      # 64 and 128 tokens, a plan that travels as tables, pairs taken whole and from the queue.
      cases='*GpuStages.*/D64_edges:*GpuAttention.*/D64_edges:*GpuNormRopePool.*/D64_edges'
      cases=$cases:'*GpuResidualNorm.Every*/W72_D24:*GpuResidualNorm.Every*/W1536_D128'
      cases=$cases:'*GpuBackward*/D64_edges:*GpuBackward*/D128_packed:GpuLutT.*'
      cases=$cases:'*GpuStages.Fine/D128_edges:*GpuStages.Fine/D128_T2x8x8:*GpuStages.*/D128_packed'
      cases=$cases:'*GpuDistribution*/D64_edges:*GpuDistribution*/D128_edges:*GpuDistribution*/D128_T2x8x8:*GpuDistribution*/D128_packed'
      pids=()
      for tool in memcheck racecheck synccheck initcheck; do
        ours timeout -s KILL 150 compute-sanitizer --tool "$tool" --error-exitcode 9 "$here/gpu_tests" \
          --gtest_filter="$cases" > "$logs/$tool.log" 2>&1 &
        pids+=($!)
      done
      for tool in memcheck racecheck synccheck initcheck; do
        wait "${pids[0]}"
        ended "$tool" $?
        echo "$tool: $(grep -c '^\[       OK' "$logs/$tool.log") passed, $(tail -1 "$logs/$tool.log")"
        grep -E '^\[ +(FAILED|SKIPPED) .*ms' "$logs/$tool.log" | head -5
        pids=("${pids[@]:1}")
      done
      ;;
    *)
      echo "gpu_run.sh: error: expected tests, large, page, contestants, gradients, bench, sanitize or mutations, got $1" >&2
      exit 2
      ;;
  esac
  shift
done
exit $status
