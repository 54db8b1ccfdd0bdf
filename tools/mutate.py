#!/usr/bin/env python3
"""Breaks each stage on purpose, one place at a time, and demands that the named test notices.

Works on a copy of the tree in build-mutation/, where only what a mutation touches is rebuilt. The
mutations are in tools/mutations*.py.

With --gpu: those of tools/mutations_gpu.py, in kernels that run on a card. Each becomes a gpu_tests of its own, and
all of them build-mutation/gpu, which runs on a machine with a GPU: tools/gpu_run.sh mutations.

usage: tools/mutate.py [-j JOBS] [--gpu] [WORD]    only mutations with WORD in their name or file
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from mutations import MUTATIONS
from mutations_gpu import GPU_MUTATIONS
from mutations_device import DEVICE_MUTATIONS
from mutations_norm import NORM_MUTATIONS
from mutations_video import VIDEO_MUTATIONS

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build-mutation" / "tree"
BUILD = COPY / "build"
BUNDLE = ROOT / "build-mutation" / "gpu"
# A mutation may turn a loop into an endless one; no named test takes half as long.
TEST_TIMEOUT_S = 300
# Libraries that belong to the machine's loader.
OF_THE_LOADER = re.compile(r"/(libc|libm|libdl|librt|libpthread)\.so")


class Failure(Exception):
    """The run proves nothing: a mutation does not apply, or the tree is broken without any."""


def copy_tree():
    """Copies tracked files, leaving equal ones alone so that they are not rebuilt."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    wanted = {name for name in listed.stdout.decode().split("\0")
              if name and not name.startswith("models/") and (ROOT / name).is_file()}
    for name in wanted:
        content = (ROOT / name).read_bytes()
        target = COPY / name
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        shutil.copymode(ROOT / name, target)  # the build runs scripts of the tree
    for path in COPY.rglob("*"):
        if path.is_file() and BUILD not in path.parents and str(path.relative_to(COPY)) not in wanted:
            path.unlink()


def build(jobs, targets):
    done = subprocess.run(["cmake", "--build", BUILD, "-j", str(jobs), "--target", *targets],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure("does not build:\n" + done.stdout[-3000:])


def is_built(binary):
    """Whether this machine can build it: cuda_tests need a CUDA toolkit."""
    known = subprocess.run(["ninja", "-C", BUILD, "-t", "query", binary], capture_output=True)
    return known.returncode == 0


def run_test(binary, test):
    """Whether the test passes; it must exist."""
    try:
        done = subprocess.run([BUILD / "tests" / binary, f"--gtest_filter={test}"],
                              capture_output=True, text=True, timeout=TEST_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Failure(f"{test} took more than {TEST_TIMEOUT_S} s") from None
    if "Running 0 tests" in done.stdout:
        raise Failure(f"{binary} has no test {test}")
    return done.returncode == 0


def mutated(mutation, text):
    found = text.count(mutation.old)
    if found != 1:
        raise Failure(f"does not apply: {mutation.old!r} is {found} times in {mutation.file}")
    return text.replace(mutation.old, mutation.new)


@contextmanager
def built(mutation, jobs):
    """The mutated tree, built. Leaves the copy as it was."""
    path = COPY / mutation.file
    original = path.read_text()
    path.write_text(mutated(mutation, original))
    try:
        build(jobs, [mutation.binary])
        yield
    finally:
        path.write_text(original)


def keep_program(name):
    """Puts gpu_tests as it is now into the bundle."""
    shutil.copy(BUILD / "tests" / "gpu_tests", BUNDLE / name)
    subprocess.run(["strip", BUNDLE / name], check=True)


def make_bundle(chosen, jobs):
    """A folder and one archive of it: the programs have all but a kernel in common, so all together take little more
    than one where the compressor sees two at a time."""
    print("building gpu_tests as it is ...", file=sys.stderr, flush=True)
    build(jobs, ["gpu_tests"])
    shutil.rmtree(BUNDLE, ignore_errors=True)
    (BUNDLE / "lib").mkdir(parents=True)
    keep_program("unchanged")
    lines, failed = [], 0
    for number, mutation in enumerate(sorted(chosen, key=lambda m: m.file)):  # each file is restored once
        start = time.monotonic()
        try:
            with built(mutation, jobs):
                keep_program(f"mutant{number}")
        except Failure as failure:
            failed += 1
            print(f"{mutation.name}  {failure}", flush=True)
            continue
        lines.append(f"mutant{number}\t{mutation.test}\t{mutation.name}\n")
        print(f"{mutation.name}  built ({time.monotonic() - start:.0f} s)", flush=True)
    (BUNDLE / "mutants.tsv").write_text("".join(lines))
    used = subprocess.run(["ldd", BUNDLE / "unchanged"], check=True, capture_output=True, text=True).stdout
    for library in (line.split()[2] for line in used.splitlines() if "=> /" in line):
        if not OF_THE_LOADER.search(library):
            shutil.copy(library, BUNDLE / "lib")
    shutil.copy(ROOT / "tools" / "gpu_run.sh", BUNDLE)
    archive = BUNDLE.with_suffix(".tar.xz")
    subprocess.run(["tar", "-C", BUNDLE.parent, "-I", "xz --lzma2=preset=6,dict=128MiB", "-cf", archive, BUNDLE.name],
                   check=True)
    print(f"{archive}: {archive.stat().st_size / 2**20:.0f} MiB. Where there is a GPU:\n"
          f"tar -xf {archive.name} && {BUNDLE.name}/gpu_run.sh mutations")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-j", type=int, default=os.cpu_count(), dest="jobs")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("word", nargs="?", default="")
    args = parser.parse_args()
    known = GPU_MUTATIONS if args.gpu else MUTATIONS + NORM_MUTATIONS + VIDEO_MUTATIONS + DEVICE_MUTATIONS
    chosen = [m for m in known if args.word in m.name or args.word in m.file]
    if not chosen:
        raise Failure(f"no mutation has {args.word!r} in its name or file")

    copy_tree()
    for mutation in chosen:
        mutated(mutation, (COPY / mutation.file).read_text())
    # -O1: what is compiled here runs once. Kernels are those that are shipped.
    kind = ["-DCMAKE_BUILD_TYPE=Release"] if args.gpu else ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1"]
    # Only what a chosen mutation is in; the CUDA backend takes the longest to compile.
    touches = lambda folder: any(m.file.startswith(folder) for m in chosen)
    parts = [f"-DVSA_BUILD_RUNTIME={'ON' if touches('runtime/') else 'OFF'}",
             f"-DVSA_CUDA={'AUTO' if touches('src/cuda/') else 'OFF'}"]
    subprocess.run(["cmake", "-S", COPY, "-B", BUILD, "-G", "Ninja", *parts, "-DVSA_BUILD_TESTS=ON", *kind,
                    "--log-level=WARNING"], check=True, stdout=subprocess.DEVNULL)
    for mutation in [m for m in chosen if not is_built(m.binary)]:
        print(f"{mutation.name}  SKIPPED: this machine does not build {mutation.binary}", flush=True)
        chosen.remove(mutation)
    if not chosen:
        return 0
    if args.gpu:
        return make_bundle(chosen, args.jobs)
    print("building the tree as it is ...", file=sys.stderr, flush=True)
    build(args.jobs, sorted({m.binary for m in chosen}))
    for binary, test in sorted({(m.binary, m.test) for m in chosen}):
        if not run_test(binary, test):
            raise Failure(f"{test} fails without any mutation")

    missed = 0
    name_width = max(len(m.name) for m in chosen)
    for mutation in chosen:
        start = time.monotonic()
        try:
            with built(mutation, args.jobs):
                caught = not run_test(mutation.binary, mutation.test)
        except Failure as failure:
            raise Failure(f"{mutation.name}: {failure}") from None
        missed += not caught
        verdict = "noticed by" if caught else "MISSED by "
        print(f"{mutation.name:{name_width}}  {verdict}  {mutation.test}"
              f"  ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutations noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"mutate: {failure}")
