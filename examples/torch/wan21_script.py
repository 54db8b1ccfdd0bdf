"""Wan2.1's generate.py: replaces the self-attention of its model. Import this before generate runs."""

import vsa_torch
from wan.modules import model


def forward(self, x, seq_lens, grid_sizes, freqs, sparsity=0.9):
    """WanSelfAttention.forward; all videos of a batch have one size, as in generate.py."""
    split = (self.num_heads, self.head_dim)
    query = model.rope_apply(self.norm_q(self.q(x)).unflatten(2, split), grid_sizes, freqs)
    key = model.rope_apply(self.norm_k(self.k(x)).unflatten(2, split), grid_sizes, freqs)
    value = self.v(x).unflatten(2, split)
    out = vsa_torch.video_sparse_attention(query.type_as(value), key.type_as(value), value,
                                           grid=grid_sizes[0].tolist(), sparsity=sparsity)
    return self.o(out.flatten(2))


model.WanSelfAttention.forward = forward
