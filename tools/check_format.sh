#!/bin/sh
# Fails if a tracked C++ file differs from what clang-format 14 makes of it; --fix rewrites it.
set -eu
cd "$(dirname "$0")/.."
mode="--dry-run --Werror"
if [ "${1:-}" = --fix ]; then mode="-i"; fi
# shellcheck disable=SC2086  # mode is a list of words
git ls-files -z '*.h' '*.cc' '*.cu' | xargs -0 --no-run-if-empty clang-format-14 $mode
