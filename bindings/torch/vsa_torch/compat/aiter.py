"""AITER's block-sparse attention: lists or maps over blocks of 128 tokens.

    from vsa_torch.compat.aiter import vsa_sparse_attention

Tensors are [B, H, S, D]; the last block of a sequence may be shorter. Both functions also take the
arguments of AITER's older form, which writes into `out`.

strict=True refuses what AITER refuses: other dtypes than float16 and bfloat16, other head_dims than 128,
tensors or lists that are not contiguous, up to 128 keys, lists that are not int32 or not of width
ceil(Sk / 128), and rows that keep nothing or everything. Without it rows may keep any number of blocks; a
row without any gives 0.
"""

import torch

from vsa_torch import _checks, attention, lists

BLOCK = 128  # tokens of a query block and of a key block


def vsa_sparse_attention(q, k, v, block_lut, block_counts, out=None, bias=None, lse=None, seqstart_q=None,
                         seqstart_k=None, *, strict=False, **extents):
    """Attention of every block of queries to the key blocks of its row.

    block_lut     [B, Hq, ceil(Sq/128), width] int32: the first entry is absolute, the others are
                  differences to the one before
    block_counts  [B, Hq, ceil(Sq/128)] int32: how many entries of a row count
    out           if given, it is written and returned; no gradient passes through it
    extents       batch, nhead, nhead_k, seqlen_q, ... of the older form: they must agree with the tensors

    Returns [B, Hq, Sq, D] like q. Raises ValueError, TypeError (the message names the argument), NotImplementedError
    for bias, lse, seqstart and layouts other than [B, H, S, D].
    """
    operation = "vsa_sparse_attention"
    _four_axes(operation, q=q, k=k, v=v)
    if _checks.flag(operation, "strict", strict):
        _strict(operation, q, k, v, block_lut, block_counts)
    lut, count = lists.from_delta(block_lut, block_counts)
    return _run(operation, q, k, v, lut, count, out, (bias, lse, seqstart_q, seqstart_k), extents)


def jenga_sparse_attention(q, k, v, block_relation_onehot, out=None, bias=None, lse=None, seqstart_q=None,
                           seqstart_k=None, *, strict=False, **extents):
    """The same with a map [B, Hq, ceil(Sq/128), ceil(Sk/128)] of bytes or bool, 1 where a block is kept."""
    operation = "jenga_sparse_attention"
    _four_axes(operation, q=q, k=k, v=v)
    if _checks.flag(operation, "strict", strict):
        _strict_tensors(operation, q, k, v, block_relation_onehot=block_relation_onehot)
    lut, count = lists.from_onehot(block_relation_onehot)
    if block_relation_onehot.shape[-1] != -(-k.shape[2] // BLOCK):
        raise ValueError(f"[{operation}] block_relation_onehot: expected {-(-k.shape[2] // BLOCK)} key blocks, got "
                         f"{block_relation_onehot.shape[-1]}")
    return _run(operation, q, k, v, lut, count, out, (bias, lse, seqstart_q, seqstart_k), extents)


def _four_axes(operation, **named):
    _checks.tensors(operation, **named)
    for name, tensor in named.items():
        if tensor.dim() != 4 or tensor.numel() == 0:
            raise ValueError(f"[{operation}] {name}: expected [B,H,S,D], none of them 0, got "
                             f"{_checks.described(tensor)}")


def _run(operation, q, k, v, lut, count, out, absent, extents):
    for name, value in zip(("bias", "lse", "seqstart_q", "seqstart_k"), absent):
        if value is not None:
            raise NotImplementedError(f"[{operation}] {name}: expected none, got a tensor")
    _check_extents(operation, q, k, v, extents)
    result = attention.block_sparse_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), lut, count, tile_shape=(1, 1, BLOCK),
        grid=(1, 1, q.shape[2]), kv_grid=(1, 1, k.shape[2])).transpose(1, 2)
    if out is None:
        return result
    if result.requires_grad:
        raise ValueError(f"[{operation}] out: expected none where a gradient is asked for, got a tensor")
    _checks.tensors(operation, out=out)
    if out.shape != result.shape or out.dtype != result.dtype or out.device != result.device:
        raise ValueError(f"[{operation}] out: expected the shape, dtype and device of q, got {out.dtype} "
                         f"{tuple(out.shape)} on {out.device}")
    return out.copy_(result)


def _check_extents(operation, q, k, v, extents):
    """The older form repeats what the tensors say; 0 leaves it open there."""
    batch, heads, seq_len, head_dim = q.shape
    known = {"batch": batch, "nhead": heads, "nhead_k": k.shape[1], "seqlen_q": seq_len, "seqlen_k": k.shape[2],
             "hdim_q": head_dim, "hdim_v": v.shape[3], "max_seq_len_q": seq_len, "max_seq_len_k": k.shape[2]}
    for name, value in extents.items():
        if name in known:
            if _checks._int(value) not in (0, known[name]):
                raise ValueError(f"[{operation}] {name}: expected {known[name]} as the tensors say, got {value}")
        elif name in ("i_perm", "o_perm"):
            if not (value is True or _checks._int(value) == 1):
                raise NotImplementedError(f"[{operation}] {name}: expected True ([B,H,S,D]), got {value}")
        elif name in ("mod", "bias_type"):
            if _checks._int(value) != 0:
                raise NotImplementedError(f"[{operation}] {name}: expected 0, got {value}")
        else:
            raise TypeError(f"[{operation}] unexpected keyword argument {name}")


def _strict(operation, q, k, v, block_lut, block_counts):
    _strict_tensors(operation, q, k, v, block_lut=block_lut, block_counts=block_counts)
    rows, width = -(-q.shape[2] // BLOCK), -(-k.shape[2] // BLOCK)
    for name, tensor, shape in (("block_lut", block_lut, (*q.shape[:2], rows, width)),
                                ("block_counts", block_counts, (*q.shape[:2], rows))):
        if tensor.dtype != torch.int32 or tuple(tensor.shape) != shape:
            raise ValueError(f"[{operation}] {name}: expected int32 {shape}, got {tensor.dtype} {tuple(tensor.shape)}")
    if int(block_counts.min()) < 1 or int(block_counts.max()) >= width:
        raise ValueError(f"[{operation}] block_counts: expected 1 to {width - 1} (the last slot of a row is CK's "
                         f"look-ahead), got {int(block_counts.min())} to {int(block_counts.max())}")


def _strict_tensors(operation, q, k, v, **tables):
    for name, tensor in (("q", q), ("k", k), ("v", v), *tables.items()):
        if not tensor.is_contiguous():
            raise ValueError(f"[{operation}] {name}: expected contiguous memory, got strides {tensor.stride()}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"[{operation}] q: expected float16 or bfloat16, got {q.dtype}")
    if q.shape[-1] != 128:
        raise ValueError(f"[{operation}] q: expected [B,H,S,128], got {tuple(q.shape)}")
    if k.shape[2] <= BLOCK:
        raise ValueError(f"[{operation}] k: expected more than {BLOCK} keys, got {k.shape[2]}")
