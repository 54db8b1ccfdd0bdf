#!/bin/sh
# Runs the commands that a page shows in blocks under `<!-- run -->`, each of which must succeed.
# usage: run_commands.sh PAGE SOURCE_DIR BUILD_DIR WORK_DIR
set -eu
page=$1 source=$2 build=$3 work=$4

rm -rf "$work"
mkdir -p "$work/out"
# The page is written for the root of the repository; outputs must not land there.
ln -s "$source/models" "$source/bench" "$work"
ln -s "$build" "$work/build"

commands=$(awk '/^<!-- run -->$/ { marked = 1; next }
                marked && /^```/ { if (inside) marked = 0; inside = !inside; next }
                marked && inside' "$page")
[ -n "$commands" ] || { echo "$page marks no command as run"; exit 1; }
cd "$work"
echo "$commands" | while read -r command; do
  echo "+ $command"
  # Nothing of a command's standard input may be the list of commands.
  sh -c "$command" </dev/null
done
