#!/bin/sh
# Runs every tools/check_* on the tracked files; says all that is wrong before it fails.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=""
for check in tools/check_*; do
  "$check" || failed="$failed $check"
done
if [ -n "$failed" ]; then
  echo "check: failed:$failed" >&2
  exit 1
fi
echo "check: all passed"
