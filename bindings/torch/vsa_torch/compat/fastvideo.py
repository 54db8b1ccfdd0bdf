"""fastvideo_kernel's functions for Video Sparse Attention, with its arguments and padding.

    from vsa_torch.compat.fastvideo import video_sparse_attn

Tensors are [B, H, S, D] in tile order: every tile has all its slots, and its valid tokens come first. As in the
original, an absent gate means weight 1. The differences to the original: padding is never read, and is 0 in the output;
means and scores stay in float32, so two tiles with nearly equal scores may be ranked differently; exactly topk tiles
are kept, and of equal ones those with the lower index; lse is the natural logarithm [B, H, S] on every device.

Sizes and lists are read on the host in every call, which waits for a GPU. For FastVideo itself, install() replaces the
whole attention layer instead of its kernels, without copies into tile order and without waiting. The functions raise
ValueError and TypeError, whose messages name the argument, and what vsa_torch.video_sparse_attention raises.

strict=True accepts only what the original's kernels accept: bfloat16, head_dim 64 or 128, as many heads for k and v as
for q, tiles of 64 or 256 tokens, an int block_size as the edge of a cube; and it rounds means, scores and weights of
the coarse branch to bfloat16 where the original does. Without it an int block_size is the number of tokens in a tile.
"""

import math

import torch

from vsa_torch import _checks, attention, lists
from vsa_torch.compat._fastvideo_backend import install, uninstall  # noqa: F401
from vsa_torch.compat._fastvideo_tiles import (  # noqa: F401  all are of fastvideo_kernel, too
    VSA_TILE_SIZE,
    build_vsa_metadata,
    construct_variable_block_sizes,
    get_non_pad_index,
    get_reverse_tile_partition_indices,
    get_tile_partition_indices,
)

# FastVideo looks for submodules of fastvideo_kernel, so the module in its place must be a package. It has none.
__path__ = []


def video_sparse_attn(q, k, v, variable_block_sizes, q_variable_block_sizes=None, topk=None, block_size=64,
                      compress_attn_weight=None, *, strict=False):
    """The whole operator on [B, H, S, D]: out = compress_attn_weight * coarse + fine.

    variable_block_sizes, q_variable_block_sizes  [Nk] and [Nq] ints: valid tokens of every tile
    topk                  kept key tiles; more than there are keeps all
    block_size            edges (f, h, w) of a tile, or its tokens
    compress_attn_weight  [B, H, Sq, D], None: 1
    Returns [B, H, Sq, D], dtype of q.
    """
    operation = "video_sparse_attn"
    _four_axes(operation, q=q, k=k, v=v, compress_attn_weight=compress_attn_weight)
    _whole_strict(operation, strict, q, k, q_variable_block_sizes)
    out = _whole(operation, _swap(q), _swap(k), _swap(v), variable_block_sizes, q_variable_block_sizes, topk,
                 _tokens(operation, block_size, strict, (64, 256)),
                 None if compress_attn_weight is None else _swap(compress_attn_weight), strict)
    return _swap(out)


def video_sparse_attn_bshd(q, k, v, variable_block_sizes, q_variable_block_sizes=None, topk=None, block_size=64,
                           compress_attn_weight=None, *, strict=False):
    """The same on [B, S, H, D]; the original has it for tiles of 256 tokens only."""
    operation = "video_sparse_attn_bshd"
    _four_axes(operation, q=q, k=k, v=v, compress_attn_weight=compress_attn_weight)
    _whole_strict(operation, strict, q, k, q_variable_block_sizes, heads_axis=2)
    return _whole(operation, q, k, v, variable_block_sizes, q_variable_block_sizes, topk,
                  _tokens(operation, block_size, strict, (256,)), compress_attn_weight, strict)


def block_sparse_attn(q, k, v, block_map, variable_block_sizes, *, strict=False):
    """The fine stage with a map [B, H, Nq, Nk] or [H, Nq, Nk], kept where it is not 0. Returns (out, lse)."""
    operation = "block_sparse_attn"
    _checks.tensors(operation, block_map=block_map, variable_block_sizes=variable_block_sizes)
    num_kv = variable_block_sizes.numel()
    if block_map.dim() < 3 or block_map.shape[-1] != num_kv:
        raise ValueError(f"[{operation}] block_map: expected [B,H,Nq,{num_kv}], as variable_block_sizes says, got "
                         f"{tuple(block_map.shape)}")
    lut, count = lists.from_map(block_map.to(torch.bool))
    return block_sparse_attn_from_indices(q, k, v, lut, count, variable_block_sizes, strict=strict)


def block_sparse_attn_from_indices(q, k, v, q2k_idx, q2k_num, variable_block_sizes, *, strict=False):
    """The fine stage with absolute indices q2k_idx [B, H, Nq, pitch], in any order, of which q2k_num [B, H, Nq] count.

    variable_block_sizes [Nk] ints: valid tokens of every key tile; query tiles are as large, and full.
    Returns (out [B, H, Sq, D], lse [B, H, Sq] float32); a row without tiles gives 0 and -inf.
    """
    operation = "block_sparse_attn_from_indices"
    _four_axes(operation, q=q, k=k, v=v)
    _sizes(operation, variable_block_sizes=variable_block_sizes)
    if strict:
        _strict(operation, q, k, heads_axis=1)
    num_kv = variable_block_sizes.numel()
    if num_kv == 0 or k.shape[2] % num_kv:
        raise ValueError(f"[{operation}] variable_block_sizes: expected a number of tiles that divides the "
                         f"{k.shape[2]} slots of k, got {num_kv}")
    tokens = k.shape[2] // num_kv
    if strict and tokens != 64:
        raise ValueError(f"[{operation}] variable_block_sizes: expected one for every 64 slots of k, got {num_kv}")
    if q.shape[2] % tokens:
        raise ValueError(f"[{operation}] q: expected a multiple of {tokens} slots, got {q.shape[2]}")
    lut, count = lists.from_absolute(q2k_idx, q2k_num)
    out, lse = attention.block_sparse_attention(
        _swap(q), _swap(k), _swap(v), lut, count, tile_shape=(1, 1, tokens), return_lse=True,
        q_tile_len=[tokens] * (q.shape[2] // tokens), kv_tile_len=variable_block_sizes)
    return _swap(out), lse


def block_sparse_attn_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, q2k_idx_list, q2k_num_list,
                             variable_block_sizes_list, q_variable_block_sizes_list=None, block_size=64, *,
                             strict=False):
    """The fine stage over packed sequences [tokens, H, D]; no sequence sees another.

    cu_seqlens  [N + 1]: where each sequence begins; the lists hold, for every sequence, what
    block_sparse_attn_from_indices takes, with a batch of 1. Without q_variable_block_sizes_list query
    tiles are full but the last. Returns out [tokens, H, D].
    """
    operation = "block_sparse_attn_varlen"
    _checks.tensors(operation, q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv)
    block_size = _checks.integer(operation, "block_size", block_size, 1, _checks.MAX_TILE_TOKENS)
    if strict:
        _strict(operation, q, k, heads_axis=1)
    q_lens, kv_lens = _lengths(operation, "cu_seqlens_q", cu_seqlens_q, q), _lengths(
        operation, "cu_seqlens_kv", cu_seqlens_kv, k)
    kv_sizes = [sizes.tolist() for sizes in variable_block_sizes_list]
    if q_variable_block_sizes_list is None:
        q_sizes = [[min(block_size, length - i) for i in range(0, length, block_size)] for length in q_lens]
    else:
        q_sizes = [sizes.tolist() for sizes in q_variable_block_sizes_list]
    for name, sizes, lens in (("q_variable_block_sizes_list", q_sizes, q_lens),
                              ("variable_block_sizes_list", kv_sizes, kv_lens)):
        if [sum(s) for s in sizes] != lens:
            raise ValueError(f"[{operation}] {name}: expected sums {lens}, the lengths of the sequences, got "
                             f"{[sum(s) for s in sizes]}")
    lut, count = _packed_lists(operation, q2k_idx_list, q2k_num_list, q_sizes, kv_sizes)
    q_flat, kv_flat = sum(q_sizes, []), sum(kv_sizes, [])
    q_slots = get_non_pad_index(torch.tensor(q_flat, device=q.device), block_size)
    kv_slots = get_non_pad_index(torch.tensor(kv_flat, device=k.device), block_size)

    def padded(x, slots, sizes):
        return x.new_zeros((len(sizes) * block_size, *x.shape[1:])).index_copy(0, slots, x).unsqueeze(0)

    out = attention.block_sparse_attention(
        padded(q, q_slots, q_flat), padded(k, kv_slots, kv_flat), padded(v, kv_slots, kv_flat), lut, count,
        tile_shape=(1, 1, block_size), q_tile_len=q_flat, kv_tile_len=kv_flat)
    return out[0, q_slots]


# --- shared --------------------------------------------------------------------------------------


def _swap(x):
    """[B, H, S, D] to [B, S, H, D] or back, as a view."""
    return x.transpose(1, 2)


def _four_axes(operation, **named):
    """Tensors of four axes; None is left out."""
    named = {name: tensor for name, tensor in named.items() if tensor is not None}
    _checks.tensors(operation, **named)
    for name, tensor in named.items():
        if tensor.dim() != 4:
            raise ValueError(f"[{operation}] {name}: expected four axes, got {_checks.described(tensor)}")


def _sizes(operation, **named):
    """Tensors [N] of ints."""
    for name, tensor in named.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"[{operation}] {name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.dim() != 1 or tensor.is_floating_point() or tensor.dtype == torch.bool:
            raise ValueError(f"[{operation}] {name}: expected ints [N], got {_checks.described(tensor)}")


def _whole(operation, q, k, v, kv_sizes, q_sizes, topk, tokens, gate, strict):
    """The whole operator on [B, S, H, D]."""
    q_sizes = kv_sizes if q_sizes is None else q_sizes
    if isinstance(q_sizes, int):
        raise TypeError(f"[{operation}] q_variable_block_sizes: expected a tensor, got int: the fifth argument is "
                        "q_variable_block_sizes, and topk the sixth")
    _sizes(operation, variable_block_sizes=kv_sizes, q_variable_block_sizes=q_sizes)
    topk = _checks.integer(operation, "topk", topk, 1, _checks.MAX_TOKENS)
    for name, tensor, x, sizes in (("q_variable_block_sizes", q_sizes, q, "q"),
                                   ("variable_block_sizes", kv_sizes, k, "k")):
        if x.shape[1] != tensor.numel() * tokens:
            raise ValueError(f"[{operation}] {name}: expected one for every {tokens} slots of {sizes}'s "
                             f"{x.shape[1]}, got {tensor.numel()}")
    # block_size counts a tile's tokens in memory; their arrangement in space does not matter here.
    return attention.video_sparse_attention(
        q, k, v, 1.0 if gate is None else gate, q_tile_len=q_sizes, kv_tile_len=kv_sizes,
        tile_shape=(1, 1, tokens), topk=min(topk, kv_sizes.numel()),
        coarse_rounding="bfloat16" if strict else "none")


def _tokens(operation, block_size, strict, allowed):
    """Tokens of a tile from an int or three edges."""
    if isinstance(block_size, int):
        tokens = block_size**3 if strict else block_size
        if tokens < 1:
            raise ValueError(f"[{operation}] block_size: expected at least 1, got {block_size}")
    else:
        tokens = math.prod(_checks.extents(operation, "block_size", block_size))
    if strict and tokens not in allowed:
        cube = ": an int is the edge of a cube in the original" if isinstance(block_size, int) else ""
        raise ValueError(f"[{operation}] block_size: expected tiles of {' or '.join(map(str, allowed))} tokens, "
                         f"got {tokens}{cube}")
    return tokens


def _whole_strict(operation, strict, q, k, q_sizes, heads_axis=1):
    if strict:
        _strict(operation, q, k, heads_axis)
        if q_sizes is None:
            raise TypeError(f"[{operation}] q_variable_block_sizes: expected a tensor, got none")


def _strict(operation, q, k, heads_axis):
    """What the original's kernels take."""
    if q.dtype != torch.bfloat16:
        raise ValueError(f"[{operation}] q: expected bfloat16, got {q.dtype}")
    if q.shape[-1] not in (64, 128):
        raise ValueError(f"[{operation}] q: expected a head_dim of 64 or 128, got {q.shape[-1]}")
    if q.shape[heads_axis] != k.shape[heads_axis]:
        raise ValueError(f"[{operation}] k: expected {q.shape[heads_axis]} heads as q has, got {k.shape[heads_axis]}")


def _lengths(operation, name, cu_seqlens, x):
    starts = cu_seqlens.tolist()
    lengths = [b - a for a, b in zip(starts, starts[1:])]
    if not lengths or starts[0] != 0 or starts[-1] != x.shape[0] or min(lengths) < 0:
        raise ValueError(f"[{operation}] {name}: expected 0, ascending, up to {x.shape[0]} tokens, got {starts}")
    return lengths


def _packed_lists(operation, index_list, num_list, q_sizes, kv_sizes):
    """The lists of all sequences in one, with key tiles counted over all of them."""
    if not len(index_list) == len(num_list) == len(q_sizes) == len(kv_sizes):
        raise ValueError(f"[{operation}] q2k_idx_list: expected as many as sequences, {len(q_sizes)}, got "
                         f"{len(index_list)}")
    pitch = max(index.shape[-1] for index in index_list)
    rows, counts, first = [], [], 0
    for i, (index, num) in enumerate(zip(index_list, num_list)):
        if num.shape[-1] != len(q_sizes[i]):
            raise ValueError(f"[{operation}] q2k_num_list: expected {len(q_sizes[i])} query tiles in sequence {i}, "
                             f"got {num.shape[-1]}")
        lists.to_map(index, num, len(kv_sizes[i]))  # refuses a tile of another sequence
        rows.append(torch.nn.functional.pad(index + first, (0, pitch - index.shape[-1]), value=-1))
        counts.append(num)
        first += len(kv_sizes[i])
    return lists.from_absolute(torch.cat(rows, dim=2), torch.cat(counts, dim=2))
