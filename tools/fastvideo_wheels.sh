#!/bin/sh
# fastvideo_wheels.sh FOLDER PYTHON: downloads the wheels of FastVideo that tests/torch/fastvideo-wheels.txt lists into
# FOLDER, without what they depend on, where they are not there yet. Prints FOLDER on stdout; where it cannot, says why on
# stderr and fails.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
wanted=tests/torch/fastvideo-wheels.txt
if ! cmp -s "$wanted" "$folder/downloaded.txt"; then
  mkdir -p "$folder" && log=$folder/pip.log && : >"$log" &&
    sed '/^#/d' "$wanted" | while read -r requirement; do  # one at a time: pip takes one version of a package
      timeout 300 "$2" -m pip download --no-deps --no-cache-dir --disable-pip-version-check -d "$folder" \
        "$requirement" >>"$log" 2>&1 || exit 1
    done || {
      echo "fastvideo_wheels: nothing of $wanted in $folder: $(tail -n 1 "$folder/pip.log")" >&2
      exit 1
    }
  cp "$wanted" "$folder/downloaded.txt"
fi
echo "$folder"
