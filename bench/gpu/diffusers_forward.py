"""Milliseconds of one forward of diffusers' Wan transformer: dense and with enable_vsa, eager and compiled.

    PYTHONPATH=build/site:FOLDER_WITH_DIFFUSERS python bench/gpu/diffusers_forward.py --compile

Weights and inputs are random, in bf16, with the modules in float32 that from_pretrained keeps in it; nothing is downloaded.
Every round runs each contestant once, so that all see the same clocks. It prints one line of JSON for each: the median and
the quartiles over the rounds, and how far its output is from diffusers' own at the same sparsity (relative L2).
"""

import argparse
import copy
import json
import re
import statistics
import time

import torch
from diffusers import WanTransformer3DModel
from diffusers import __version__ as diffusers_version

from vsa_torch.diffusers import enable_vsa

MODELS = {  # heads of 128 or 16, width of the feed-forward network, layers, width of the text
    "1.3b": dict(num_attention_heads=12, attention_head_dim=128, ffn_dim=8960, num_layers=30, text_dim=4096),
    "14b": dict(num_attention_heads=40, attention_head_dim=128, ffn_dim=13824, num_layers=40, text_dim=4096),
    "tiny": dict(num_attention_heads=2, attention_head_dim=16, ffn_dim=48, num_layers=2, text_dim=24, freq_dim=16)}
IN_FLOAT32 = WanTransformer3DModel._keep_in_fp32_modules

# name: (settings of enable_vsa without the sparsity, or None; sparse; fuse_qkv_projections; compiled)
CONTESTANTS = {"dense": (None, False, False, False),
               "dense, fused passes": (dict(fused=True), False, False, False),
               "vsa": (dict(fused=False), True, False, False),
               "vsa, fused passes": (dict(fused=True), True, False, False),
               "vsa, fused passes, one product for q, k, v": (dict(fused=True), True, True, False),
               "dense, compiled": (None, False, False, True),
               "vsa, compiled": (dict(fused=True), True, False, True)}


def transformer(name, device):
    torch.manual_seed(1)
    with torch.device(device):
        model = WanTransformer3DModel(**MODELS[name]).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if not any(part in IN_FLOAT32 for part in name.split(".")):
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


def inputs(model, grid, device):
    frames, rows, columns = grid
    config = model.config
    make = dict(device=device, dtype=torch.bfloat16)
    return dict(hidden_states=torch.randn(1, config.in_channels, frames, 2 * rows, 2 * columns, **make),
                encoder_hidden_states=torch.randn(1, 512, config.text_dim, **make),
                timestep=torch.full((1,), 500.0, device=device), return_dict=False)


def contestant(model, name, sparsity):
    """A copy of the model with the same weights, as that contestant runs it."""
    settings, sparse, one_product, compiled = CONTESTANTS[name]
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    model = copy.deepcopy(model, shared)
    if settings is not None:
        enable_vsa(model, sparsity=sparsity if sparse else 0.0, **settings)
    if one_product:
        for block in model.blocks:
            block.attn1.fuse_projections()
    return torch.compile(model) if compiled else model


class Clock:
    """Milliseconds of a call, of the GPU where there is one."""

    def __init__(self, device):
        self.on_gpu = device.type == "cuda"

    def milliseconds(self, call):
        if not self.on_gpu:
            start = time.perf_counter()
            call()
            return 1000 * (time.perf_counter() - start)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)


def reference_of(name, names):
    """diffusers' own operations at the same sparsity."""
    own = "vsa" if CONTESTANTS[name][1] else "dense"
    return own if own in names else None


def measured(models, call, device, rounds):
    """{name: row}, after a first call of each, which compiles."""
    clock, times, outs = Clock(device), {name: [] for name in models}, {}
    for name, model in models.items():
        start = time.perf_counter()
        outs[name] = model(**call)[0].float().cpu()
        first = time.perf_counter() - start
        times[name] = {"first_call_s": round(first, 1), "ms": []}
        model(**call)
    for _ in range(rounds):
        for name, model in models.items():
            times[name]["ms"].append(clock.milliseconds(lambda model=model: model(**call)))
    return {name: row_of(name, times[name], outs) for name in models}


def row_of(name, found, outs):
    low, median, high = statistics.quantiles(found["ms"], n=4)
    reference = reference_of(name, outs)
    error = None
    if reference is not None:
        error = ((outs[name] - outs[reference]).norm() / outs[reference].norm()).item()
    return {"contestant": name, "ms": round(median, 2), "quartiles_ms": [round(low, 2), round(high, 2)],
            "least_ms": round(min(found["ms"]), 2), "first_call_s": found["first_call_s"],
            "finite": bool(outs[name].isfinite().all()), "relative_l2": error}


def profiled(model, call, rows):
    """The kernels of one forward by their time."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        model(**call)
        torch.cuda.synchronize()
    kernels = sorted((event for event in found.key_averages() if event.self_device_time_total > 0
                      and event.device_type != torch.autograd.DeviceType.CPU),
                     key=lambda event: -event.self_device_time_total)
    for event in kernels[:rows]:
        print(f"{event.self_device_time_total / 1000:9.3f} ms {event.count:5d}  {event.key[:110]}")
    print(f"{sum(event.self_device_time_total for event in kernels) / 1000:9.3f} ms in all")


def parsed(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="1.3b")
    parser.add_argument("--grid", type=lambda text: tuple(map(int, text.split("x"))), default=(21, 30, 52),
                        help="tokens: frames x rows x columns (default: 21x30x52, a video of 480x832x81)")
    parser.add_argument("--sparsity", type=float, default=0.875)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--contestants", type=re.compile, default=re.compile(""), help="regular expression of their names")
    parser.add_argument("--compile", action="store_true", help="the compiled contestants, too; each takes a minute or two")
    parser.add_argument("--profile", type=int, metavar="ROWS", help="lists that many kernels of each eager contestant")
    options = parser.parse_args(argv)
    options.names = [name for name in CONTESTANTS
                     if options.contestants.search(name) and (options.compile or not CONTESTANTS[name][3])]
    if not options.names:
        parser.error(f"argument --contestants: matches none of {', '.join(CONTESTANTS)}")
    if options.rounds < 2:
        parser.error("argument --rounds: expected at least 2")
    return options


@torch.no_grad()
def main(argv=None):
    options = parsed(argv)
    device = torch.device(options.device)
    model = transformer(options.model, device)
    call = inputs(model, options.grid, device)
    models = {name: contestant(model, name, options.sparsity) for name in options.names}
    where = {"model": options.model, "grid": options.grid, "sparsity": options.sparsity, "rounds": options.rounds,
             "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu", "torch": torch.__version__,
             "diffusers": diffusers_version}
    for row in measured(models, call, device, options.rounds).values():
        print(json.dumps({**row, **where}), flush=True)
    if options.profile:
        for name, model in models.items():
            if not CONTESTANTS[name][3]:
                print(f"# {name}")
                profiled(model, call, options.profile)


if __name__ == "__main__":
    main()
