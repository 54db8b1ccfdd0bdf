#!/usr/bin/env python3
"""Checks every contestant against fp64 and then times them interleaved, in one process. JSON lines on stdout.

A contestant is a stage or the operator of this library (through the C ABI), or what it is compared with:
dense attention by cuDNN (and FlashAttention-3), FlexAttention, FastVideo's operator, and a matrix product.
--passes backward measures gradients, alone and together with the forward pass that they need; --passes both measures
forward as well. --page measures what docs/performance.md shows. A contestant that cannot run gets a row
"absent: reason" or "failed: reason". Each round runs all contestants of a case once, in another order, on the next of
several sets of inputs, with the L2 flushed before each call; power and clocks are sampled meanwhile. The program needs
PyTorch and libvsa.so; --backend cpu tries it out without a GPU.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import arguments
import others
import others_backward
import ours
import ours_backward
import power
import problem
from vsa_c import Library

WARMUP = 3
FLUSH_BYTES = 192 << 20  # three times the L2 of an H200
PASSES = {"forward": (ours.contestants, others.FACTORIES),
          "backward": (ours_backward.contestants, others_backward.FACTORIES)}


class Clock:
    """Times what a call enqueues, by events on the GPU and by wall time elsewhere."""

    def __init__(self, device):
        self._cuda = device.type == "cuda"
        self._flush = torch.empty(FLUSH_BYTES if self._cuda else 1, dtype=torch.uint8, device=device)

    def round(self, contestants, i):
        """Runs every contestant on its set i; milliseconds each, in the order given."""
        if not self._cuda:
            return [self._wall_ms(c.calls[i]) for c in contestants]
        marks = []
        torch.cuda._sleep(2_000_000)  # a millisecond for the host to get ahead: launches cost no GPU time
        for contestant in contestants:
            self._flush.fill_(i)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            contestant.calls[i]()
            stop.record()
            marks.append((start, stop))
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) for start, stop in marks]

    @staticmethod
    def _wall_ms(call):
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3


def time_interleaved(contestants, num_sets, repeats, clock):
    """{what: [ms, ...]}: the order turns by one each round, the set of inputs too."""
    times = {c.what: [] for c in contestants}
    for r in range(-WARMUP, repeats):
        first = r % len(contestants)
        order = contestants[first:] + contestants[:first]
        for contestant, ms in zip(order, clock.round(order, r % num_sets)):
            if r >= 0:
                times[contestant.what].append(ms)
    return times


def run_case(case, passes, library, options, clock, device, emit):
    """Emits the rows of a pass (forward or backward) of a case; returns whether all that ran was right."""
    plan = library.plan(case.grid, case.tile)
    sets = [problem.Inputs(case, plan, torch.bfloat16, device, seed) for seed in range(1, options.sets + 1)]
    own, factories = PASSES[passes]
    contestants = list(own(library, case, sets))
    right = True

    def leave_out(what, why):
        emit({"case": case.name, "what": what, **why})

    for what, factory in factories.items():
        if what not in options.others:
            continue
        try:
            contestants.append(factory(case, sets))
        except ImportError as e:
            leave_out(what, {"absent": str(e)})
        except Exception as e:  # another's package: whatever it raises is its row
            leave_out(what, {"failed": _short(e)})
    runs, errors = [], {}
    for contestant in contestants:
        try:
            errors[contestant.what] = contestant.checked()
        except Exception as e:
            leave_out(contestant.what, {"failed": _short(e)})
            right = right and contestant.what in factories
            continue
        if errors[contestant.what] <= contestant.limit:  # false for NaN
            runs.append(contestant)
        else:
            leave_out(contestant.what, {"failed": f"wrong: relative error {errors[contestant.what]:.3g}"})
            right = False
    with power.watching(device) as watch:
        times = time_interleaved(runs, options.sets, options.repeats, clock)
    work = work_of(case, sets[0])
    for contestant in runs:
        ms = times[contestant.what]
        quartiles = statistics.quantiles(ms, n=4) if len(ms) > 1 else [ms[0]] * 3
        flops, l2_bytes = work.get(contestant.pairs, (getattr(contestant, "flops", None), None))
        if contestant.pairs and contestant.passes != 1:
            flops, l2_bytes = flops * contestant.passes, None
        emit({"case": case.name, "what": contestant.what, "median_ms": round(statistics.median(ms), 5),
              "iqr_ms": round(quartiles[2] - quartiles[0], 5), "min_ms": round(min(ms), 5), "repeats": len(ms),
              "relative_error": errors[contestant.what], "flops": flops, "l2_bytes": l2_bytes,
              "bytes": contestant.bytes,
              "workspace_mb": contestant.workspace_mb})
    emit({"case": case.name, "summary": {
        "grid": case.grid, "tile": case.tile, "heads": case.heads, "head_dim": case.head_dim,
        "topk": sets[0].lists.index.shape[-1], "num_tiles": plan.info.num_tiles,
        "shared": round(problem.shared_share(sets[0]), 3), **watch.summary()}})
    return right


def work_of(case, inputs):
    """{pairs: (FLOP, bytes read from L2 if every query tile streams its own keys and values)}.

    A dense kernel is taken to stream them for 128 queries at a time.
    """
    pairs, keys = problem.kept_pairs(inputs)
    tokens = inputs.plan.info.seq_len
    row = 4 * case.head_dim  # bytes of a key and a value
    return {"sparse": (4.0 * case.head_dim * pairs, keys * row),
            "dense": (4.0 * case.head_dim * case.heads * tokens ** 2,
                      float(case.heads * -(-tokens // 128) * tokens * row))}


def header(library, device, options):
    about = {"commit": options.commit or _output("git", "rev-parse", "--short", "HEAD"), "vsa": library.version,
             "torch": torch.__version__, "repeats": options.repeats, "sets": options.sets,
             "date": time.strftime("%Y-%m-%d")}
    if device.type == "cuda":
        query = _output("nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader", "-i", "0")
        card, driver, limit = (query.split(", ") + ["?"] * 3)[:3]
        about.update(card=card, driver=driver, power_limit=limit, cuda=torch.version.cuda,
                     cudnn=torch.backends.cudnn.version())
    return {"header": about}


def _output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "?"


def _short(e):
    return f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"[:200]


def main(argv=None):
    parser = arguments.parser(__doc__.splitlines()[0], list(PASSES))
    options = arguments.parsed(parser, argv)
    passes = list(PASSES) if options.passes == "both" else [options.passes]
    cases = problem.CASES if options.backend == "cuda" else problem.TINY_CASES
    names = arguments.chosen(parser, "--cases", options.cases, [case.name for case in cases])
    options.others = arguments.chosen(parser, "--others", options.others,
                                      [name for one in passes for name in PASSES[one][1]], none="")
    device = torch.device("cuda" if options.backend == "cuda" else "cpu")
    if device.type == "cuda" and not torch.cuda.is_available():
        print("contestants.py: error: PyTorch sees no GPU", file=sys.stderr)
        return 3

    def emit(row):
        print(json.dumps(row), flush=True)

    began, right = time.monotonic(), True
    stream = torch.cuda.Stream() if device.type == "cuda" else None
    with torch.cuda.stream(stream) if stream else contextlib.nullcontext(), torch.no_grad():
        try:
            library = Library(Path(options.library), options.backend, device, stream.cuda_stream if stream else None)
        except (OSError, AttributeError, RuntimeError) as e:
            parser.error(f"argument --library: expected libvsa with the backend {options.backend}, "
                         f"got {options.library}: {str(e).splitlines()[0]}")
        emit(header(library, device, options))
        clock = Clock(device)
        for case in cases:
            if case.name not in names:
                continue
            if time.monotonic() - began > options.budget_s:
                emit({"case": case.name, "left_out": f"no time after {options.budget_s:g} s"})
                continue
            case_began = time.monotonic()
            try:
                for one in passes:
                    right = run_case(case, one, library, options, clock, device, emit) and right
            except torch.cuda.OutOfMemoryError as e:
                emit({"case": case.name, "left_out": _short(e)})
                right = False
            print(f"{case.name}: {time.monotonic() - case_began:.1f} s", file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
