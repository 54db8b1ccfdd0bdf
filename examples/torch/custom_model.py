"""A model of one's own: self-attention over a video with a learned gate, ready for training."""

import torch
import vsa_torch


class VideoSelfAttention(torch.nn.Module):
    def __init__(self, dim, num_heads, sparsity):
        super().__init__()
        self.num_heads, self.sparsity = num_heads, sparsity
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.gate = torch.nn.Linear(dim, dim)
        torch.nn.init.zeros_(self.gate.weight)  # begins as the fine stage alone
        torch.nn.init.zeros_(self.gate.bias)
        self.out = torch.nn.Linear(dim, dim)

    def forward(self, x, grid):
        """x [B, f * h * w, dim] in raster order, grid (f, h, w)."""
        query, key, value = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).unbind(2)
        gate = self.gate(x).unflatten(2, (self.num_heads, -1))
        attended = vsa_torch.video_sparse_attention(query, key, value, gate, grid=grid, sparsity=self.sparsity)
        return self.out(attended.flatten(2))
