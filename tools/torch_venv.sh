#!/bin/sh
# torch_venv.sh FOLDER: a virtual environment with tests/torch/requirements.txt, made where it is not there yet (5 GB,
# some minutes). Prints its Python on stdout; where it cannot be made, says why on stderr and fails.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
wanted=tests/torch/requirements.txt
fail() {
  echo "torch_venv: no PyTorch in $folder: $1" >&2
  exit 1
}
if ! cmp -s "$wanted" "$folder/installed.txt"; then
  tools/install_deps.sh torch || fail "python3-venv was not installed"
  rm -rf "$folder"
  mkdir -p "$folder" || fail "the folder was not made"
  free_gib=$(df -Pk "$folder" | awk 'NR == 2 { print int($4 / 2^20) }')
  [ "$free_gib" -ge 8 ] || fail "8 GiB are needed, $free_gib are free"
  echo "torch_venv: installing $wanted into $folder" >&2
  log=$folder/pip.log
  # Without a cache of its own: the folder is the cache. A connection that hangs must not use up CI's time.
  python3 -m venv "$folder" >"$log" 2>&1 &&
    timeout 1200 "$folder/bin/pip" install --no-cache-dir --disable-pip-version-check -r "$wanted" >>"$log" 2>&1 ||
    fail "$(tail -n 1 "$log")"
  "$folder/bin/python" -c 'import torch, pytest, diffusers' >>"$log" 2>&1 || fail "$(tail -n 1 "$log")"
  cp "$wanted" "$folder/installed.txt"
fi
echo "$folder/bin/python"
