#!/bin/sh
# Installs the Debian packages of the sets named (see tools/debian-packages.txt), if any is missing.
# usage: tools/install_deps.sh build [test] [check] [clang] [fuzz] [venv]
set -eu
list="$(dirname "$0")/debian-packages.txt"

missing=""
for set in "$@"; do
  grep -q "^$set " "$list" || { echo "install_deps: no set '$set' in $list" >&2; exit 2; }
  for package in $(sed -n "s/^$set  *\([^ ]*\).*/\1/p" "$list"); do
    state="$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)"
    [ "$state" = installed ] || missing="$missing $package"
  done
done
[ -n "$missing" ] || exit 0

echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
if [ "$(id -u)" = 0 ]; then
  as_root="env"
elif command -v sudo >/dev/null; then
  as_root="sudo DEBIAN_FRONTEND=noninteractive"
else
  echo "install_deps: these packages are missing; as root, run:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi
# A mirror that drops one connection should not fail the build.
# shellcheck disable=SC2086  # both are lists of words
$as_root apt-get -o Acquire::Retries=3 -qq update
# shellcheck disable=SC2086
$as_root apt-get -o Acquire::Retries=3 -qq -y --no-install-recommends install $missing >&2
