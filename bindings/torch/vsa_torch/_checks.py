"""Checks of arguments in PyTorch's words, before an operator is called: `[operation] argument: expected, got`."""

import decimal
import math
import numbers
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
    """Strided tensors, which have a shape and memory of their own."""
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"[{operation}] {name}: expected a tensor, got {type(value).__name__}")
        if value.is_nested:
            raise ValueError(f"[{operation}] {name}: expected a strided tensor, got a nested one")
        if value.layout != torch.strided:
            raise ValueError(f"[{operation}] {name}: expected a strided tensor, got {value.layout}")


def readable(operation, **named):
    """Tensors whose values the host can read."""
    tensors(operation, **named)
    for name, value in named.items():
        if value.is_meta:
            raise ValueError(f"[{operation}] {name}: expected a tensor with values, got {described(value)}")


def like_query(operation, name, tensor, query, shape):
    """`tensor` has the dtype and the device of query, and that shape."""
    if tensor.shape != shape or tensor.dtype != query.dtype or tensor.device != query.device:
        wanted = ",".join("any" if extent is None else str(extent) for extent in shape)
        raise ValueError(
            f"[{operation}] {name}: expected {str(query.dtype).removeprefix('torch.')} [{wanted}] on "
            f"{query.device}, got {described(tensor)}")
    strided(operation, name, tensor)


def strided(operation, name, tensor):
    """The last axis of `tensor` is contiguous."""
    if tensor.stride()[-1] != 1 and tensor.shape[-1] != 1:
        raise ValueError(f"[{operation}] {name}: expected the last axis contiguous, got stride "
                         f"{tensor.stride(-1)}; use .contiguous()")


def tokens(operation, name, tensor):
    """A tensor [B, S, H, D] of a supported dtype that is not empty."""
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
    for tensor in (query, key, value, *[gate for _, gate in gates]):
        if not isinstance(tensor, torch.Tensor) or tensor.is_nested or tensor.layout != torch.strided:
            tensors(operation, query=query, key=key, value=value, **dict(gates))  # says which
    tokens(operation, "query", query)
    sequence(operation, "query", query, *q_side)
    strided(operation, "query", query)
    q_shape, kv_shape = query.shape, key.shape
    batch, _, heads, head_dim = q_shape
    sequence(operation, "key", key, *kv_side)
    kv_heads = kv_shape[2] if len(kv_shape) == 4 else None  # checked below
    like_query(operation, "key", key, query, (batch, kv_side[0], kv_heads, head_dim))
    like_query(operation, "value", value, query, kv_shape)
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"[{operation}] key: expected a number of heads that divides the query's "
                         f"{heads}, got {kv_heads}")
    for name, tensor in gates:
        like_query(operation, name, tensor, query, q_shape)


def table(operation, name, tensor, query, num_axes):
    """An int32 look-up table on the device of query."""
    tensors(operation, **{name: tensor})
    is_table = tensor.dtype == torch.int32 and tensor.dim() == num_axes and tensor.numel() > 0
    if not is_table or tensor.device != query.device:
        raise ValueError(f"[{operation}] {name}: expected int32 with {num_axes} axes, none of them 0, on "
                         f"{query.device}, got {described(tensor)}")


# --- numbers -------------------------------------------------------------------------------------
#
# Python's own ints and floats are handled first everywhere. Nearly every call passes them, and inside torch.compile
# they may be symbols, which must not reach checks that are meant for other types.

_MAX_FLOAT32 = torch.finfo(torch.float32).max


def _int(value):
    """`value` as an int, None if it is not one. NumPy's ints and tensors of one int are accepted, bools are not."""
    if type(value) is int or isinstance(value, torch.SymInt):
        return value
    if isinstance(value, bool) or torch.compiler.is_compiling():  # which turns NumPy's ints into tensors
        return None
    if isinstance(value, torch.Tensor) and (value.dtype == torch.bool or value.is_meta):
        return None
    try:
        return operator.index(value)
    except (TypeError, RuntimeError):  # RuntimeError: a tensor that has no value
        return None


def _items(value):
    """The items of an array, a tensor or a sequence; the value itself if it has none."""
    if isinstance(value, (str, bytes)):
        return (value,)
    try:
        return tuple(value.tolist() if isinstance(value, torch.Tensor) else value)
    except (TypeError, RuntimeError):  # not iterable, or a tensor without values
        return (value,)


def integer(operation, name, value, least, most, of=""):
    """`value` as an int of `least` to `most`; `of` says what is counted."""
    found = value if type(value) is int else _int(value)
    if found is None or not least <= found <= most:
        got = type(value).__name__ if torch.compiler.is_compiling() else repr(value)
        raise ValueError(f"[{operation}] {name}: expected {least} to {most}{of}, got {got}")
    return found


def number(operation, name, value):
    """`value` as a float that float32 can hold."""
    found = value
    if type(value) is not float and not isinstance(value, torch.SymFloat):
        if isinstance(value, bool) or not isinstance(value, (numbers.Real, decimal.Decimal, torch.SymInt)):
            raise TypeError(f"[{operation}] {name}: expected a number, got {type(value).__name__}; use float(), before "
                            "torch.compile where that makes tensors of NumPy's numbers")
        try:
            found = float(value)
        except (OverflowError, ValueError):  # an int or a fraction beyond float64; a decimal that is a signalling NaN
            found = math.nan
    if not -_MAX_FLOAT32 <= found <= _MAX_FLOAT32:
        raise ValueError(f"[{operation}] {name}: expected a finite number (of float32), got {value}")
    return _of_this_value(found) if torch.compiler.is_compiling() else found


def _of_this_value(value):
    """`value` as a float; the graph that is being compiled is specialised to it.

    PyTorch specialises a graph to the value of any float that reaches an operator, but too late: if the float was
    computed in the compiled function (0.9 * s) and s has another use, inductor keeps an older value (2.10 to 2.15).
    """
    from torch.fx.experimental.symbolic_shapes import guard_scalar

    return guard_scalar(value)


def share(operation, name, value):
    """A sparsity as a float: at most 1, so that 90 (per cent) is not taken for all but one tile."""
    value = number(operation, name, value)
    if value > 1:
        raise ValueError(f"[{operation}] {name}: expected a share of at most 1, got {value}")
    return value


def flag(operation, name, value):
    """`value`, which is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"[{operation}] {name}: expected True or False, got {type(value).__name__}")
    return value


def pair(operation, name, value, least):
    """`value` as two ints of at least `least`, of query and key."""
    found = [_int(number) for number in _items(value)]
    if len(found) != 2 or not all([number is not None and least <= number <= MAX_TOKENS for number in found]):
        raise ValueError(f"[{operation}] {name}: expected two ints (query, key) of at least {least}, got {value!r}")
    return tuple(found)


def choice(operation, name, value, choices):
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"[{operation}] {name}: expected {' or '.join(choices)}, got {value}")
    return value


def extents(operation, name, value):
    """`value` as a tuple of three positive ints (frames, rows, columns)."""
    found = value if type(value) is tuple else _items(value)
    if len(found) == 3:
        f, h, w = found
        if not type(f) is type(h) is type(w) is int:
            f, h, w = _int(f), _int(h), _int(w)
        if (f is not None and h is not None and w is not None and 1 <= f <= MAX_TOKENS and 1 <= h <= MAX_TOKENS
                and 1 <= w <= MAX_TOKENS):
            return f, h, w
    raise ValueError(f"[{operation}] {name}: expected three positive ints (f, h, w) below 2^31, got {value}")


def tile_shape(operation, value):
    """The edges of a tile in tokens."""
    f, h, w = found = extents(operation, "tile_shape", value)
    if f * h * w > MAX_TILE_TOKENS:
        raise ValueError(f"[{operation}] tile_shape: expected at most {MAX_TILE_TOKENS} tokens in a tile, got {value}")
    return found


def prefix_lengths(operation, prefix):
    """Tokens of each segment, as a list; None is none."""
    if prefix is None:
        return []
    found = [_int(length) for length in _items(prefix)]
    if not all([length is not None and 0 <= length <= MAX_TOKENS for length in found]):
        raise ValueError(f"[{operation}] prefix: expected lengths of segments >= 0, got {prefix}")
    return found


def tile_lengths(operation, name, value, tile_tokens):
    """Valid tokens of every tile, as a list."""
    items = _items(value)
    # There may be thousands of tiles, so ints are checked without a Python loop.
    if not torch.compiler.is_compiling() and set(map(type, items)) == {int}:
        if 0 <= min(items) and max(items) <= tile_tokens:
            return list(items)
    found = [_int(length) for length in items]
    wrong = [i for i, length in enumerate(found) if length is None or not 0 <= length <= tile_tokens]
    if wrong or not found:
        got = f"{items[wrong[0]]!r} for tile {wrong[0]}" if wrong else "none"
        raise ValueError(f"[{operation}] {name}: expected 0 to {tile_tokens} valid tokens for each tile, got {got}")
    return found
