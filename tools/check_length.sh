#!/bin/sh
# A file is one idea: above 400 lines it needs a reason in tools/long-files.txt, above 600 it fails.
set -eu
cd "$(dirname "$0")/.."
status=0
for file in $(git ls-files '*.h' '*.cc' '*.cu' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' Makefile); do
  [ -e "$file" ] || continue
  lines=$(wc -l <"$file")
  if [ "$lines" -gt 600 ]; then
    echo "$file: $lines lines, more than 600: split it" >&2
    status=1
  elif [ "$lines" -gt 400 ] && ! grep -q "^$file  *[^ ]" tools/long-files.txt; then
    echo "$file: $lines lines, more than 400 and without a reason in tools/long-files.txt" >&2
    status=1
  fi
done
exit $status
