#!/bin/sh
# Fails on misspelt words (codespell), paths of one machine, and notes without an issue number.
set -eu
cd "$(dirname "$0")/.."
status=0
git ls-files -z -- ':!LICENSE' ':!models' ':!docs/images' ':!tests/golden/data' |
  xargs -0 codespell --ignore-words tools/codespell-words.txt || status=1
# The brackets keep the patterns from matching this file.
if git grep -nIE '(^|[^[:alnum:]_.])/([w]ork|[h]ome|[U]sers|[r]oot)/' -- ':!LICENSE'; then
  echo "check_spelling: a path that exists on one machine only" >&2
  status=1
fi
if git grep -nIwE '[T]ODO|[F]IXME|[X]XX' -- ':!LICENSE' | grep -vE '#[0-9]+'; then
  echo "check_spelling: a note without an issue number (#12)" >&2
  status=1
fi
exit $status
