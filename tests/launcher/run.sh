#!/bin/sh
# run.sh LAUNCHER FOLDER NVCC ARGUMENT...: the launcher lets a compilation through, refuses one that serialises wgmma,
# and hands on what a compiler says and returns. Writes into FOLDER.
set -u
launcher=$1
folder=$2
shift 2
source=$(dirname "$0")/wgmma.cu
object=$folder/wgmma.o
fail() {
  echo "launcher: $1" >&2
  cat "$folder/stderr" >&2
  exit 1
}
mkdir -p "$folder" || exit 1

rm -f "$object"
"$launcher" "$@" -c "$source" -o "$object" 2>"$folder/stderr" || fail "it refused a sound kernel"
[ -s "$object" ] || fail "no object file of a sound kernel"

"$launcher" "$@" -DSERIALISED -c "$source" -o "$object" 2>"$folder/stderr" && fail "it let a serialised wgmma pass"
grep -q '^error: serialised wgmma' "$folder/stderr" || fail "it failed for another reason"
grep -q '^ptxas info .*two_products' "$folder/stderr" || fail "the remark of ptxas is lost"
[ ! -e "$object" ] || fail "the object file of a serialised wgmma is still there"

"$launcher" sh -c 'echo result; echo remark >&2; exit 3' >"$folder/stdout" 2>"$folder/stderr"
[ $? = 3 ] || fail "it lost the exit status"
[ "$(cat "$folder/stdout")" = result ] || fail "it lost what the compiler printed"
[ "$(cat "$folder/stderr")" = remark ] || fail "it changed the compiler's messages"
