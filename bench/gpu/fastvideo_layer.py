#!/usr/bin/env python3
"""Times FastVideo's own attention layer over its kernels, over vsa's drop-in for them, and with vsa's install().

Two parts are timed: `layer` is DistributedAttention_VSA on q, k, v and gate [1, S, H, D]; `impl` is the part of it after
the four tensors have been concatenated: preprocess_qkv, forward and postprocess_output. `operator` is
vsa_torch.video_sparse_attention on the same tensors. Each is checked against fp64 on sampled tiles before it is timed. They
run interleaved, with the L2 flushed. JSON lines go to stdout, a table to stderr. The program needs vsa_torch and FastVideo
(its folder or wheel in PYTHONPATH or --fastvideo; none of its dependencies). FastVideo's kernels take part if
`import fastvideo_kernel` works.
"""

import json
import statistics
import sys
import time
from types import SimpleNamespace

import torch

import arguments
import fastvideo_wheel
import power
import problem
import vsa_torch
from contestant import Contestant, max_or_nan, run_and_wait
from contestants import FLUSH_BYTES, header
from vsa_torch.compat import fastvideo as compat

WARMUP, ROW = 3, 20  # rounds that do not count; calls one after the other for the time that a model sees
HEAD_START_CYCLES = 4_000_000  # about 2 ms for the host to get ahead of the GPU, longer than any call takes to enqueue
CASES = [problem.Case(name, grid, problem.CUBE, 12, 128, 0.125, False)
         for name, grid in (("8x64x64", (8, 64, 64)), ("21x30x52", (21, 30, 52)))]
TINY_CASES = [problem.Case("5x6x7", (5, 6, 7), problem.CUBE, 2, 16, 0.125, False)]


def lists_of(case, s, rounding):
    """What the operator selects for inputs, as problem.Lists."""
    _, index, count = vsa_torch.coarse_select(s.q, s.k, s.v, grid=case.grid, sparsity=1 - case.kept,
                                              coarse_rounding=rounding)
    lists = problem.Lists(case.heads, s.plan.info.num_tiles, index.shape[-1], index.device)
    lists.index, lists.count = index, count
    return lists


def inputs_of(case, device, dtype, num_sets):
    """Sets of inputs with the lists that are selected from them: exactly, and from scores rounded as FastVideo rounds."""
    lens = torch.tensor(vsa_torch.tile_lengths(case.grid, case.tile))
    order = compat.get_tile_partition_indices(case.grid, case.tile)
    info = SimpleNamespace(num_tiles=len(lens), tile_tokens=64, seq_len=len(order))
    plan = SimpleNamespace(info=info, tile_len=lens, tokens=order.split(lens.tolist()))
    sets = [problem.Inputs(case, plan, dtype, device, seed) for seed in range(1, num_sets + 1)]
    for s in sets:
        s.lists, s.rounded_lists = lists_of(case, s, "none"), lists_of(case, s, "bfloat16")
        s.joined = torch.cat([s.q, s.k, s.v, s.gate])
    return sets


def fastvideos(path):
    """{way: FastVideo's modules, of its own for each way}, and {way: why it is absent}."""
    ways, absent = {}, {}
    own = fastvideo_wheel.load(path)
    if own.backend.video_sparse_attn is None:
        absent["fastvideo"] = "fastvideo_kernel could not be imported"
    else:
        ways["fastvideo"] = own
    ways["dropin"] = fastvideo_wheel.load(path)
    ways["dropin"].backend.video_sparse_attn = compat.video_sparse_attn
    ways["install"] = fastvideo_wheel.load(path)
    compat.install()  # into those that were loaded last
    return ways, absent


def contestants(ways, case, sets):
    """The operator, and both parts of every way."""
    def checked(name, run, lists=lambda s: s.lists, over_tiles=max_or_nan, limit=0.01):
        last = [None] * len(sets)

        def call_of(i):
            def call():
                last[i] = run(i)
            return call

        return Contestant(name, [call_of(i) for i in range(len(sets))],
                          lambda i: over_tiles(problem.tile_errors(sets[i], last[i], "operator", lists(sets[i]))),
                          "sparse", sets, limit)

    def operator(i):
        s = sets[i]
        return vsa_torch.video_sparse_attention(s.q, s.k, s.v, s.gate, grid=case.grid, sparsity=1 - case.kept)

    yield checked("operator", operator)
    for way, fastvideo in ways.items():
        # A tie of rounded scores may be broken another way in a few rows, so the median over tiles is held to the limit.
        how = dict(lists=lambda s: s.rounded_lists, limit=0.02,
                   over_tiles=lambda errors: float(torch.tensor(errors).median())) if way == "fastvideo" else {}
        metadata = fastvideo_wheel.metadata(fastvideo, case.grid, 1 - case.kept, sets[0].q.device)
        attn = fastvideo_wheel.attention(fastvideo, case.heads, case.head_dim)

        def impl(i, impl=attn.attn_impl, metadata=metadata):
            q, k, v, gate = impl.preprocess_qkv(sets[i].joined, metadata).chunk(4)
            return impl.postprocess_output(impl.forward(q, k, v, gate, metadata), metadata)

        def layer(i, fastvideo=fastvideo, attn=attn, metadata=metadata):
            s = sets[i]
            more = {"original_seq_len": s.q.shape[1]} if fastvideo.version >= "0.2" else {}
            with fastvideo.context.set_forward_context(0, metadata):
                return attn(s.q, s.k, s.v, gate_compress=s.gate, **more)[0]

        yield checked(f"{way}_impl", impl, **how)
        yield checked(f"{way}_layer", layer, **how)


def gpu_ms(call, flush, device):
    """Time on the GPU while the host is ahead, with a cold L2; wall time on a CPU."""
    if device.type != "cuda":
        return wall_ms(call, device, 1)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flush.fill_(0)
    torch.cuda._sleep(HEAD_START_CYCLES)
    start.record()
    call()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def wall_ms(call, device, times):
    """Mean wall time of calls one after the other."""
    began = time.perf_counter()
    for _ in range(times):
        call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1e3 / times


def host_us(call, device):
    """Time on the host of one call with nothing else to wait for but what the call itself waits for."""
    run_and_wait(call, device)
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def run_case(ways, absent, case, options, device, dtype, emit):
    """Emits the rows of a case; returns whether all that ran was right."""
    sets = inputs_of(case, device, dtype, options.sets)
    for way, why in absent.items():
        emit({"case": case.name, "what": way, "absent": why})
    runs, errors, right = [], {}, True
    for contestant in contestants(ways, case, sets):
        error = errors[contestant.what] = contestant.checked()
        if error <= contestant.limit:  # false for NaN
            runs.append(contestant)
        else:
            emit({"case": case.name, "what": contestant.what, "failed": f"wrong: relative error {error:.3g}"})
            right = False
    flush = torch.empty(FLUSH_BYTES if device.type == "cuda" else 1, dtype=torch.uint8, device=device)
    times = {c.what: [] for c in runs}
    with power.watching(device) as watch:
        for r in range(-WARMUP, options.repeats):
            for contestant in runs[r % len(runs):] + runs[:r % len(runs)]:
                ms = gpu_ms(contestant.calls[r % len(sets)], flush, device)
                if r >= 0:
                    times[contestant.what].append(ms)
    for contestant in runs:
        ms = times[contestant.what]
        quartiles = statistics.quantiles(ms, n=4) if len(ms) > 1 else [ms[0]] * 3
        call = contestant.calls[0]
        emit({"case": case.name, "what": contestant.what, "median_ms": round(statistics.median(ms), 4),
              "iqr_ms": round(quartiles[2] - quartiles[0], 4), "repeats": len(ms),
              "row_ms": round(min(wall_ms(call, device, ROW) for _ in range(3)), 4),
              "host_us": round(statistics.median(host_us(call, device) for _ in range(ROW)), 1),
              "relative_error": errors[contestant.what]})
    emit({"case": case.name, "summary": watch.summary()})
    return right


def table(rows):
    lines = ["| grid | what | GPU ms (iqr) | ms in a row | host us | error |", "|---|---|---|---|---|---|"]
    for row in rows:
        if "median_ms" in row:
            lines.append(f"| {row['case']} | {row['what']} | {row['median_ms']:.3f} ({row['iqr_ms']:.3f}) | "
                         f"{row['row_ms']:.3f} | {row['host_us']:.0f} | {row['relative_error']:.2g} |")
        elif "what" in row:
            lines.append(f"| {row['case']} | {row['what']} | {row.get('absent') or row['failed']} | | | |")
    return "\n".join(lines)


def main(argv=None):
    parser = arguments.Parser(prog="fastvideo_layer.py", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--fastvideo", metavar="PATH", help="FastVideo's wheel, or the folder that holds its package")
    parser.add_argument("--repeats", type=arguments.count, default=24)
    parser.add_argument("--sets", type=arguments.count, default=2, help="sets of inputs that rounds rotate over")
    parser.add_argument("--commit", help="the source of vsa_torch, where git does not know it")
    options = parser.parse_args(argv)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("fastvideo_layer.py: error: PyTorch sees no GPU", file=sys.stderr)
        return 3
    try:
        ways, absent = fastvideos(options.fastvideo)
    except ImportError as e:
        parser.error(f"argument --fastvideo: {e}")
    rows, right = [], True

    def emit(row):
        rows.append(row)
        print(json.dumps(row), flush=True)

    try:
        about = header(SimpleNamespace(version="?"), device, options)
        about["header"]["fastvideo"] = ways["install"].version
        emit(about)
        with torch.no_grad():
            for case in CASES if device.type == "cuda" else TINY_CASES:
                dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
                right = run_case(ways, absent, case, options, device, dtype, emit) and right
    finally:
        compat.uninstall()
        fastvideo_wheel.unload()
    print(table(rows), file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
