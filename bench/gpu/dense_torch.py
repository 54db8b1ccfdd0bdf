#!/usr/bin/env python3
"""Dense attention through PyTorch on the GPU: what sparse attention is compared with.

One JSON line a case: cuDNN's and FlashAttention-2's forward (PyTorch's backends), bf16, median of 12,
cold L2. Needs PyTorch with CUDA; nothing else in the repository does.
"""

import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

CASES = {  # name: (heads, tokens, head_dim)
    "s32768_h12_d128": (12, 32768, 128),
    "s32768_h12_d64": (12, 32768, 64),
    "wan480_h12_d128": (12, 21 * 30 * 52, 128),
}
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash2": SDPBackend.FLASH_ATTENTION}
REPEATS = 12


def median_ms(call, flush):
    times = []
    for i in range(REPEATS + 3):
        flush.fill_(i)
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        if i >= 3:
            times.append(start.elapsed_time(stop))
    return sorted(times)[len(times) // 2]


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    flush = torch.empty(192 << 20, dtype=torch.uint8, device="cuda")
    for name, (heads, tokens, head_dim) in CASES.items():
        if wanted not in name:
            continue
        q, k, v = (torch.randn(1, heads, tokens, head_dim, device="cuda", dtype=torch.bfloat16)
                   for _ in range(3))
        for backend, value in BACKENDS.items():
            with sdpa_kernel(value):
                ms = median_ms(lambda: scaled_dot_product_attention(q, k, v), flush)
            tflops = 4 * heads * tokens * tokens * head_dim / ms * 1e-9
            print(json.dumps({"case": name, "what": f"dense_{backend}", "median_ms": round(ms, 4),
                              "tflops": round(tflops, 1)}), flush=True)


if __name__ == "__main__":
    main()
