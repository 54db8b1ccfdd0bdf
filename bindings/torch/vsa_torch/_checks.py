"""Checks of arguments in PyTorch's words, before an operator is called: `argument: expected, got`."""

import math

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def described(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    return f"{name} [{','.join(map(str, tensor.shape))}] on {tensor.device}"


def like_query(operation, name, tensor, query, shape):
    """`tensor` has the dtype and the device of query, and that shape (a tuple; None: any extent)."""
    fits = tensor.shape == shape or tensor.dim() == len(shape) and all(
        [want is None or have == want for have, want in zip(tensor.shape, shape)])
    if not fits or tensor.dtype != query.dtype or tensor.device != query.device:
        wanted = ",".join("any" if extent is None else str(extent) for extent in shape)
        raise ValueError(
            f"[{operation}] {name}: expected {str(query.dtype).removeprefix('torch.')} [{wanted}] on "
            f"{query.device}, got {described(tensor)}")
    if tensor.stride(-1) != 1 and tensor.shape[-1] != 1:
        raise ValueError(f"[{operation}] {name}: expected the last axis contiguous, got stride "
                         f"{tensor.stride(-1)}; use .contiguous()")


def qkv(operation, query, key, value, seq_len, kv_seq_len=None, gates=()):
    """query [B, S, H, D], key and value [B, Sk, H_kv, D], gates (name, tensor) like query."""
    for name, tensor in (("query", query), ("key", key), ("value", value), *gates):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"[{operation}] {name}: expected a tensor, got {type(tensor).__name__}")
    if query.dim() != 4:
        raise ValueError(f"[{operation}] query: expected [B,S,H,D], got {described(query)}")
    if query.dtype not in DTYPES:
        raise ValueError(f"[{operation}] query: expected float32, bfloat16, float16 or float64, got "
                         f"{described(query)}")
    batch, _, heads, head_dim = query.shape
    like_query(operation, "query", query, query, (batch, seq_len, heads, head_dim))
    kv_shape = (batch, seq_len if kv_seq_len is None else kv_seq_len, None, head_dim)
    like_query(operation, "key", key, query, kv_shape)
    like_query(operation, "value", value, query, key.shape)
    if key.shape[2] == 0 or heads % key.shape[2]:
        raise ValueError(f"[{operation}] key: expected a number of heads that divides the query's "
                         f"{heads}, got {key.shape[2]}")
    for name, tensor in gates:
        like_query(operation, name, tensor, query, query.shape)


def table(operation, name, tensor, query, num_axes):
    """An int32 look-up table on the device of query."""
    if tensor.dtype != torch.int32 or tensor.dim() != num_axes or tensor.device != query.device:
        raise ValueError(f"[{operation}] {name}: expected int32 with {num_axes} axes on {query.device}, "
                         f"got {described(tensor)}")


def number(operation, name, value):
    """`value` as a finite float, or None."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor) or not math.isfinite(value):
        raise ValueError(f"[{operation}] {name}: expected a finite number, got {value}")
    return float(value)


def prefix_lengths(operation, prefix):
    prefix = [] if prefix is None else list(prefix)
    if not all(isinstance(length, int) and length >= 0 for length in prefix):
        raise ValueError(f"[{operation}] prefix: expected lengths of segments >= 0, got {prefix}")
    return prefix
