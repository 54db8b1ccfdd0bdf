#!/bin/sh
# Fails on tracked files above 256 KiB that tools/large-files.txt gives no reason for.
set -eu
cd "$(dirname "$0")/.."
status=0
for file in $(git ls-files); do
  [ -e "$file" ] || continue
  bytes=$(stat -c %s "$file")
  if [ "$bytes" -gt 262144 ] && ! grep -q "^$file  *[^ ]" tools/large-files.txt; then
    echo "$file: $bytes bytes, more than 256 KiB and without a reason in tools/large-files.txt" >&2
    status=1
  fi
done
exit $status
