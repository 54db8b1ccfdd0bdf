#!/bin/sh
# Gathers what a machine with a GPU needs to run tests and bench of the CUDA backend without building:
# programs, the shared libraries they were linked with, and tools/gpu_run.sh, into <build>/bundle and, compressed to
# a fifth, <build>/bundle.tar.xz. The build has the targets gpu_tests, vsa_shared, vsa_cli_small, cli_cuda_tests,
# gpu_runtime_tests and example_generate_video.
# usage: tools/gpu_bundle.sh [build directory]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
bundle=$build/bundle
rm -rf "$bundle"
mkdir -p "$bundle/lib"
programs="tests/gpu_tests tests/gpu_runtime_tests tests/cli_cuda_tests cli/vsa_cli_small examples/example_generate_video"
cp tools/gpu_run.sh bench/gpu.txt bench/gpu/*.py "$bundle/"
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
mv "$bundle/vsa_cli_small" "$bundle/vsa"
tar -C "$build" -cf - bundle | xz -T0 > "$bundle.tar.xz"
du -sh "$bundle" "$bundle.tar.xz"
