"""Checks of arguments in PyTorch's words, before an operator is called: `[operation] argument: expected, got`."""

import math
import operator

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
MAX_TOKENS = 2**31 - 1  # of a sequence: libvsa counts them in int32
MAX_TILE_TOKENS = 256  # libvsa's kMaxTileTokens


# --- tensors -------------------------------------------------------------------------------------


def described(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    return f"{name} [{','.join(map(str, tensor.shape))}] on {tensor.device}"


def tensors(operation, **named):
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"[{operation}] {name}: expected a tensor, got {type(value).__name__}")


def like_query(operation, name, tensor, query, shape):
    """`tensor` has the dtype and the device of query, and that shape (a tuple; None: any extent)."""
    fits = tensor.shape == shape or tensor.dim() == len(shape) and all(
        [want is None or have == want for have, want in zip(tensor.shape, shape)])
    if not fits or tensor.dtype != query.dtype or tensor.device != query.device:
        wanted = ",".join("any" if extent is None else str(extent) for extent in shape)
        raise ValueError(
            f"[{operation}] {name}: expected {str(query.dtype).removeprefix('torch.')} [{wanted}] on "
            f"{query.device}, got {described(tensor)}")
    strided(operation, name, tensor)


def strided(operation, name, tensor):
    """`tensor` lies in memory by strides, its last axis contiguous."""
    if tensor.layout != torch.strided:
        raise ValueError(f"[{operation}] {name}: expected a tensor by strides, got {tensor.layout}")
    if tensor.stride(-1) != 1 and tensor.shape[-1] != 1:
        raise ValueError(f"[{operation}] {name}: expected the last axis contiguous, got stride "
                         f"{tensor.stride(-1)}; use .contiguous()")


def tokens(operation, name, tensor):
    """A tensor [B, S, H, D] of a dtype that there is, with something in it."""
    if tensor.dim() != 4 or tensor.numel() == 0:
        raise ValueError(f"[{operation}] {name}: expected [B,S,H,D], none of them 0, got {described(tensor)}")
    if tensor.dtype not in DTYPES:
        raise ValueError(f"[{operation}] {name}: expected float32, bfloat16, float16 or float64, got "
                         f"{described(tensor)}")


def sequence(operation, name, tensor, length, said_by):
    """`length` is what the argument `said_by` makes of the sequence."""
    if tensor.dim() == 4 and tensor.shape[1] != length:
        raise ValueError(f"[{operation}] {name}: expected a sequence of {length}, as {said_by} says, got "
                         f"{described(tensor)}")


def qkv(operation, query, key, value, q_side, kv_side, gates=()):
    """query [B, Sq, H, D], key and value [B, Sk, H_kv, D], gates (name, tensor) like query. A side is the length of
    its sequence and the argument that says so."""
    tensors(operation, query=query, key=key, value=value)
    tokens(operation, "query", query)
    sequence(operation, "query", query, *q_side)
    strided(operation, "query", query)
    batch, _, heads, head_dim = query.shape
    sequence(operation, "key", key, *kv_side)
    like_query(operation, "key", key, query, (batch, kv_side[0], None, head_dim))
    like_query(operation, "value", value, query, key.shape)
    if key.shape[2] == 0 or heads % key.shape[2]:
        raise ValueError(f"[{operation}] key: expected a number of heads that divides the query's "
                         f"{heads}, got {key.shape[2]}")
    for name, tensor in gates:
        like_query(operation, name, tensor, query, query.shape)


def table(operation, name, tensor, query, num_axes):
    """An int32 look-up table on the device of query."""
    tensors(operation, **{name: tensor})
    is_table = tensor.dtype == torch.int32 and tensor.dim() == num_axes and tensor.numel() > 0
    if not is_table or tensor.device != query.device:
        raise ValueError(f"[{operation}] {name}: expected int32 with {num_axes} axes, none of them 0, on "
                         f"{query.device}, got {described(tensor)}")


# --- numbers -------------------------------------------------------------------------------------


def _int(value):
    """`value` as an int, None if it is none. NumPy's ints and tensors of one int serve; bools do not."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, torch.SymInt)):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return None


def _items(value):
    """The items of an array, a tensor or a sequence; the value itself if it has none."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return tuple(value) if hasattr(value, "__iter__") and not isinstance(value, str) else (value,)


def integer(operation, name, value, least, most, of=""):
    """`value` as an int of `least` to `most`; `of` says what is counted."""
    found = _int(value)
    if found is None or not least <= found <= most:
        raise ValueError(f"[{operation}] {name}: expected {least} to {most}{of}, got {value!r}")
    return found


def number(operation, name, value):
    """`value` as a float that float32 can hold."""
    if isinstance(value, (bool, torch.Tensor)) or not hasattr(value, "__float__"):
        raise TypeError(f"[{operation}] {name}: expected a number, got {type(value).__name__}")
    if not abs(float(value)) <= torch.finfo(torch.float32).max:
        raise ValueError(f"[{operation}] {name}: expected a finite number (of float32), got {value}")
    return float(value)


def share(operation, name, value):
    """A sparsity as a float: at most 1, so that 90 (per cent) is not taken for all but one tile."""
    value = number(operation, name, value)
    if value > 1:
        raise ValueError(f"[{operation}] {name}: expected a share of at most 1, got {value}")
    return value


def choice(operation, name, value, choices):
    if value not in choices:
        raise ValueError(f"[{operation}] {name}: expected {' or '.join(choices)}, got {value}")
    return value


def extents(operation, name, value):
    """`value` as a tuple of three positive ints (frames, rows, columns)."""
    found = tuple([_int(extent) for extent in _items(value)])
    if len(found) != 3 or not all([extent is not None and 1 <= extent <= MAX_TOKENS for extent in found]):
        raise ValueError(f"[{operation}] {name}: expected three positive ints (f, h, w) below 2^31, got {value}")
    return found


def tile_shape(operation, value):
    """The edges of a tile in tokens."""
    found = extents(operation, "tile_shape", value)
    if math.prod(found) > MAX_TILE_TOKENS:
        raise ValueError(f"[{operation}] tile_shape: expected at most {MAX_TILE_TOKENS} tokens in a tile, got {value}")
    return found


def prefix_lengths(operation, prefix):
    """Tokens of each segment, as a list; None is none."""
    found = [] if prefix is None else [_int(length) for length in _items(prefix)]
    if not all([length is not None and 0 <= length <= MAX_TOKENS for length in found]):
        raise ValueError(f"[{operation}] prefix: expected lengths of segments >= 0, got {prefix}")
    return found


def tile_lengths(operation, name, value, tile_tokens):
    """Valid tokens of every tile, as a list."""
    items = _items(value)
    found = [_int(length) for length in items]
    wrong = [i for i, length in enumerate(found) if length is None or not 0 <= length <= tile_tokens]
    if wrong or not found:
        got = f"{items[wrong[0]]!r} for tile {wrong[0]}" if wrong else "none"
        raise ValueError(f"[{operation}] {name}: expected 0 to {tile_tokens} valid tokens for each tile, got {got}")
    return found
