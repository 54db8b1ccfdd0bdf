#!/usr/bin/env python3
"""Compares the machine code of CUDA kernels of two builds, instruction by instruction.

    tools/compare_kernels.py [--renamed OLD=NEW]... BEFORE AFTER

BEFORE and AFTER are libraries, object files or folders that hold objects, of the same compiler. A kernel
is identified by its name and template arguments, wherever its file lies and whatever its parameters are
called. Where a change renames a kernel or a type among its template arguments, --renamed gives the old and
the new identifier. Prints what differs and returns 1 if anything does. Needs cuobjdump and nvdisasm (CUDA
toolkit) and c++filt on the PATH.
"""

import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return text.stdout.splitlines()


def key_of(name):
    """A demangled name without return type, parameters and unnamed namespaces."""
    name = name.replace("(anonymous namespace)::", "")
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:i]
            break
    return name.removeprefix("void ")


def kernels_of(file):
    """Name as the compiler wrote it -> lines of instructions with their encoding."""
    sass = subprocess.run(["cuobjdump", "-sass", file], capture_output=True, text=True, check=True).stdout
    kernels = {}
    lines = None
    for line in sass.splitlines():
        found = re.match(r"\s*Function : (\S+)", line)
        if found:
            lines = kernels.setdefault(found[1], [])
        elif lines is not None and "/* 0x" in line:
            lines.append(re.sub(r"\s+", " ", line).strip())
    return kernels


def renamed(key, renames):
    for old, new in renames:
        key = re.sub(rf"\b{re.escape(old)}\b", new, key)
    return key


def kernels(place, renames=()):
    path = Path(place)
    files = sorted(path.rglob("*.cu.o")) if path.is_dir() else [path]
    assert files, f"{place}: no *.cu.o"
    found = {}
    for file in files:
        code = kernels_of(file)
        for name, lines in zip(demangled(code), code.values()):
            key = renamed(key_of(name), renames)
            assert key not in found, f"{place}: {key} twice"
            found[key] = lines
    return found


def main():
    parser = argparse.ArgumentParser(description="Compares the machine code of CUDA kernels of two builds.")
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("before")
    parser.add_argument("after")
    args = parser.parse_args()
    before = kernels(args.before, [rename.split("=") for rename in args.renamed])
    after = kernels(args.after)
    differing = 0
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        differing += 1
        if name not in after or name not in before:
            print(f"{name}: only {'before' if name in before else 'after'}")
            continue
        print(f"{name}: {len(before[name])} lines before, {len(after[name])} after")
        diff = difflib.unified_diff(before[name], after[name], lineterm="", n=0)
        print("\n".join("    " + line for line in list(diff)[:12]))
    print(f"{len(before)} kernels before, {len(after)} after, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
