"""Muon for many small matrices: every step changes all of a matrix's directions by as much.

What torch.optim.Muon computes with adjust_lr_fn="match_rms_adamw", which lets learning rates of AdamW be kept. That one
works on one matrix after the other, and starting the kernels for a hundred small ones takes longer than they run; here
matrices of a shape are one stack.
"""
from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.775, 2.0315)  # of the quintic that takes all singular values near 1 fastest
_ROUNDS = 5


def matrices(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """The weights of the linear layers in them: what Muon is for. Tables of embeddings, norms and biases are not."""
    return [m.weight for module in modules for m in module.modules() if isinstance(m, nn.Linear)]


def orthogonal(stack: Tensor) -> Tensor:
    """Matrices [N, rows, columns] with their singular values replaced by about 1, in bf16: Newton-Schulz."""
    a, b, c = _COEFFICIENTS
    x = stack.bfloat16()
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(_ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr: float = 1e-3, weight_decay: float = 0.0, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            for p in params:
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
            buffers = [self.state[p]["momentum_buffer"] for p in params]
            gradients = [p.grad for p in params]
            torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
            looking_ahead = torch._foreach_lerp(gradients, buffers, group["momentum"])
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            by_shape: dict[torch.Size, list[int]] = {}
            for n, p in enumerate(params):
                by_shape.setdefault(p.shape, []).append(n)
            for shape, places in by_shape.items():
                update = orthogonal(torch.stack([looking_ahead[n] for n in places])).float()
                rate = group["lr"] * 0.2 * max(shape) ** 0.5
                torch._foreach_add_([params[n] for n in places], list(update.unbind()), alpha=-rate)
