#!/bin/sh
# Gathers what a machine with a GPU needs to run tests and bench of the CUDA backend without building:
# programs, the shared libraries they were linked with, and tools/gpu_run.sh, into <build>/bundle.
# The build has tests, libvsa.so and VSA_BUILD_BENCH=ON. "cli" adds vsa and its tests, whose video libraries take
# 250 MB.
# usage: tools/gpu_bundle.sh [build directory [cli]]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
bundle=$build/bundle
rm -rf "$bundle"
mkdir -p "$bundle/lib"
programs="tests/gpu_tests bench/vsa_gpu_bench"
[ "${2:-}" != cli ] || programs="$programs tests/cli_tests cli/vsa"
cp tools/gpu_run.sh bench/gpu/*.py "$bundle/"
git describe --always --dirty > "$bundle/COMMIT"
cp -L "$build/src/libvsa.so" "$bundle/"
# All but the C library itself, which belongs to the machine's loader.
for program in $programs; do
  cp "$build/$program" "$bundle/"
  strip "$bundle/${program##*/}"
done
for program in $programs libvsa.so; do
  ldd "$bundle/${program##*/}" | awk '/=> \// { print $3 }'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' | while read -r library; do
  cp -L "$library" "$bundle/lib/"
done
du -sh "$bundle"
