"""The processes that share a training step, one a GPU. Without torchrun there is one."""
from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


class Workers:
    """This process among `count`. Every one takes its part of the same batch and then the same
    step, so their weights stay equal and the number of GPUs does not change what is learned."""

    def __init__(self, device_type: str):
        self.count, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        local_rank = int(os.environ.get("LOCAL_RANK", 0))
        self.device = torch.device(device_type, local_rank) if device_type == "cuda" else torch.device("cpu")
        if device_type == "cuda":
            torch.cuda.set_device(self.device)
        if self.count > 1:
            dist.init_process_group("nccl" if device_type == "cuda" else "gloo")

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def part_of(self, batch: int) -> slice:
        """This process's clips."""
        if batch % self.count:
            raise ValueError(f"[train] batch: expected a multiple of {self.count} processes, got {batch}")
        each = batch // self.count
        return slice(self.rank * each, (self.rank + 1) * each)

    def average_(self, tensors: Sequence[Tensor]) -> None:
        """Replaces fp32 tensors by their means over all processes, in one exchange."""
        if self.count == 1:
            return
        flat = torch.cat([t.flatten() for t in tensors])
        dist.all_reduce(flat)
        flat /= self.count
        parts = flat.split([t.numel() for t in tensors])
        torch._foreach_copy_(list(tensors), [part.view_as(t) for part, t in zip(parts, tensors)])

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in some process."""
        if self.count == 1:
            return flag
        shared = torch.tensor(float(flag), device=self.device)
        dist.all_reduce(shared)
        return shared.item() > 0

    def close(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()
