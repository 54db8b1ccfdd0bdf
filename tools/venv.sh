#!/bin/sh
# venv.sh FOLDER REQUIREMENTS GIB MODULES: a virtual environment with what the file REQUIREMENTS lists, made where it is
# not there yet and GIB are free, and kept if Python can import MODULES (a, b). Prints its Python on stdout; where it
# cannot be made, says why on stderr and fails.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
wanted=$2
fail() {
  echo "venv: nothing of $wanted in $folder: $1" >&2
  exit 1
}
if ! cmp -s "$wanted" "$folder/installed.txt"; then
  tools/install_deps.sh venv || fail "python3-venv was not installed"
  rm -rf "$folder"
  mkdir -p "$folder" || fail "the folder was not made"
  free_gib=$(df -Pk "$folder" | awk 'NR == 2 { print int($4 / 2^20) }')
  [ "$free_gib" -ge "$3" ] || fail "$3 GiB are needed, $free_gib are free"
  echo "venv: installing $wanted into $folder" >&2
  log=$folder/pip.log
  # Without a cache of its own: the folder is the cache. A connection that hangs must not use up CI's time.
  python3 -m venv "$folder" >"$log" 2>&1 &&
    timeout 1200 "$folder/bin/pip" install --no-cache-dir --disable-pip-version-check -r "$wanted" >>"$log" 2>&1 ||
    fail "$(tail -n 1 "$log")"
  "$folder/bin/python" -c "import $4" >>"$log" 2>&1 || fail "$(tail -n 1 "$log")"
  cp "$wanted" "$folder/installed.txt"
fi
echo "$folder/bin/python"
