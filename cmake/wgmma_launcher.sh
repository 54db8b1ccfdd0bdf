#!/bin/sh
# wgmma_launcher.sh COMPILER ARGUMENT...: runs the compiler, and fails where ptxas says that it serialises wgmma
# instructions. To ptxas that is an "info", so its own -Werror lets it pass.
set -u
status=0
{ messages=$("$@" 2>&1 >&3) || status=$?; } 3>&1
[ -z "$messages" ] || printf '%s\n' "$messages" >&2
[ $status = 0 ] || exit $status
case $messages in
  *"wgmma.mma_async instructions are serialized"*) ;;
  *) exit 0 ;;
esac
echo "error: serialised wgmma: see the remarks of ptxas above" >&2
# The compiler was content, and make would take what it left for a result.
previous=""
for argument; do
  [ "$previous" != -o ] || rm -f "$argument"
  previous=$argument
done
exit 1
