#!/bin/sh
# Gathers what a machine with a GPU and PyTorch needs to run tests/torch and training/dit without building: the package
# vsa_torch, the shared libraries it was linked with, the tests, and tools/torch_run.sh, into <build>/torch-bundle.
# The build has VSA_BUILD_TORCH=ON and the CUDA backend. Wheels of FastVideo come along where VSA_FASTVIDEO_WHEELS names them.
# usage: tools/torch_bundle.sh [build directory]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
bundle=$build/torch-bundle
rm -rf "$bundle"
mkdir -p "$bundle/lib" "$bundle/bench" "$bundle/docs" "$bundle/examples" "$bundle/tests" "$bundle/tools" "$bundle/models/wan-toy"
cmake --install "$build" --component vsa_torch --prefix "$bundle/site" >/dev/null
strip "$bundle/site/vsa_torch/_vsa_ops.so"
cp -L "$build/src/libvsa.so" tools/torch_run.sh pyproject.toml "$bundle/"
cp -r tests/torch "$bundle/tests/"
cp -r examples/torch "$bundle/examples/"
cp -r bench/gpu bench/history "$bundle/bench/"
cp docs/performance.md "$bundle/docs/"
cp README.md "$bundle/"
cp tools/bench_gpu.sh "$bundle/tools/"
cp -r training "$bundle/"
cp -r models/wan-toy/tokenizer "$bundle/models/wan-toy/"
mkdir "$bundle/fastvideo"
[ -z "${VSA_FASTVIDEO_WHEELS:-}" ] || cp "$VSA_FASTVIDEO_WHEELS"/fastvideo-*.whl "$bundle/fastvideo/"
git describe --always --dirty > "$bundle/COMMIT"
# All but the C and C++ libraries, which the machine's PyTorch needs as new as they are there.
ldd "$bundle/libvsa.so" | awk '/=> \// { print $3 }' | grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc..|libgcc_s)\.so' |
  while read -r library; do cp -L "$library" "$bundle/lib/"; done
find "$bundle" -name __pycache__ -prune -exec rm -r {} +
du -sh "$bundle"
