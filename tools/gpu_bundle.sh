#!/bin/sh
# Gathers what a machine with a GPU needs to run tests and bench of the CUDA backend without building:
# programs, the shared libraries they were linked with, and tools/gpu_run.sh, into <build>/bundle.
# usage: tools/gpu_bundle.sh [build directory], configured with tests and VSA_BUILD_BENCH=ON
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
bundle=$build/bundle
rm -rf "$bundle"
mkdir -p "$bundle/lib"
programs="gpu_tests cli_tests vsa vsa_gpu_bench"
cp "$build/tests/gpu_tests" "$build/tests/cli_tests" "$build/cli/vsa" "$build/bench/vsa_gpu_bench" \
  "$bundle/"
cp tools/gpu_run.sh bench/gpu/dense_torch.py "$bundle/"
# All but the C library itself, which belongs to the machine's loader.
for program in $programs; do
  strip "$bundle/$program"
  ldd "$bundle/$program" | awk '/=> \// { print $3 }'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' | while read -r library; do
  cp -L "$library" "$bundle/lib/"
done
du -sh "$bundle"
