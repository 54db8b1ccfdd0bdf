"""Lists of the key tiles that each query tile keeps: from the encodings of other libraries to vsa's own, and back.

vsa's own encoding is a pair: lut [B, H, Nq, pitch] int32 with absolute indices of key tiles, ascending and unique, then
-1; and lut_count [B, H, Nq] int32 with the number of indices. Every `from_` function returns such a pair and every
`to_` function takes one. The functions have no gradients, and drop, clamp or wrap no entry. They raise ValueError and
TypeError, whose messages name the argument. Checking their arguments waits for the device.
"""

import torch

from vsa_torch import _checks


def from_map(block_map, *, pitch=None):
    """From a bool map [B, H, Nq, Nk] or [H, Nq, Nk], True where a tile is kept; pitch defaults to the longest row."""
    block_map = _four_axes("from_map", "block_map", block_map)
    if block_map.dtype != torch.bool:
        raise ValueError(f"[from_map] block_map: expected bool, got {block_map.dtype}")
    count = block_map.sum(-1, dtype=torch.int32)
    longest = max(1, _longest(count))
    pitch = longest if pitch is None else _pitch("from_map", pitch, longest)
    num_kv = block_map.shape[-1]
    order = torch.argsort((~block_map).to(torch.uint8), dim=-1, stable=True).to(torch.int32)
    lut = _new("from_map", "pitch", count, (*count.shape, pitch)).fill_(-1)
    width = min(pitch, num_kv)
    lut[..., :width] = order[..., :width].masked_fill(_tail(count, width), -1)
    return lut, count


def to_map(lut, lut_count, num_kv_tiles):
    """To a bool map [B, H, Nq, num_kv_tiles]."""
    num_kv_tiles = _checks.integer("to_map", "num_kv_tiles", num_kv_tiles, 0, _checks.MAX_TOKENS)
    lut, lut_count = _pair("to_map", lut, lut_count)
    tail = _tail(lut_count, lut.shape[-1])
    outside = (lut < 0) | (lut >= num_kv_tiles)
    if bool((outside & ~tail).any()):
        raise ValueError(f"[to_map] lut: expected indices 0 to {num_kv_tiles - 1}, got one outside")
    # Entries behind the count go to a column of their own that is cut off.
    columns = lut.long().masked_fill(tail, num_kv_tiles)
    block_map = _new("to_map", "num_kv_tiles", tail, (*lut.shape[:-1], num_kv_tiles + 1)).fill_(False)
    return block_map.scatter_(-1, columns, True)[..., :num_kv_tiles]


def from_onehot(onehot, *, pitch=None):
    """From bytes or bool [B, H, Nq, Nk] or [H, Nq, Nk], 1 where kept (Jenga)."""
    _checks.readable("from_onehot", onehot=onehot)
    if onehot.dtype not in (torch.uint8, torch.int8, torch.bool):
        raise ValueError(f"[from_onehot] onehot: expected bytes or bool, got {onehot.dtype}")
    if bool(((onehot != 0) & (onehot != 1)).any()):
        raise ValueError("[from_onehot] onehot: expected 0 and 1, got another value")
    return from_map(onehot != 0, pitch=pitch)


def to_onehot(lut, lut_count, num_kv_tiles):
    """To uint8 [B, H, Nq, num_kv_tiles]."""
    return to_map(lut, lut_count, num_kv_tiles).to(torch.uint8)


def from_absolute(index, count):
    """From absolute indices [B, H, Nq, pitch] in any order, with anything behind the count."""
    index, count = _pair("from_absolute", index, count)
    last = torch.iinfo(torch.int32).max
    ordered = index.masked_fill(_tail(count, index.shape[-1]), last).sort(-1).values
    return ordered.masked_fill(_tail(count, index.shape[-1]), -1), count


def from_delta(delta, count):
    """From rows whose first entry is absolute and whose others are differences (CK Tile, AITER)."""
    delta, count = _pair("from_delta", delta, count)
    kept = delta.masked_fill(_tail(count, delta.shape[-1]), 0)
    return from_absolute(kept.cumsum(-1, dtype=torch.int64), count)


def to_delta(lut, lut_count, *, pitch=None):
    """To differences; the tail is 0, which CK's look-ahead may read. AITER's pitch is ceil(Sk / 128)."""
    lut, lut_count = _pair("to_delta", lut, lut_count)
    pitch = lut.shape[-1] if pitch is None else _pitch("to_delta", pitch, _longest(lut_count))
    delta = torch.cat((lut[..., :1], lut.diff(dim=-1)), dim=-1)
    delta = delta.masked_fill(_tail(lut_count, lut.shape[-1]), 0)
    out = _new("to_delta", "pitch", lut, (*lut.shape[:-1], pitch)).fill_(0)
    width = min(pitch, lut.shape[-1])
    out[..., :width] = delta[..., :width]
    return out, lut_count


def from_block_mask(block_mask, *, batch=None, num_heads=None):
    """From a BlockMask of FlexAttention that keeps whole blocks.

    batch and num_heads are those of the mask; an axis of extent 1 in the mask may be repeated to another extent. A
    block of which mask_mod keeps a part cannot be expressed by a list, so it is refused. (create_block_mask also makes
    such blocks if a length is not a multiple of the block size.)
    """
    from torch.nn.attention.flex_attention import BlockMask, noop_mask

    operation = "from_block_mask"
    if not isinstance(block_mask, BlockMask):
        raise TypeError(f"[{operation}] block_mask: expected a BlockMask, got {type(block_mask).__name__}")
    num_kv = -(-block_mask.seq_lengths[1] // block_mask.BLOCK_SIZE[1])
    kept = None
    for index, count in ((block_mask.kv_indices, block_mask.kv_num_blocks),
                         (block_mask.full_kv_indices, block_mask.full_kv_num_blocks)):
        if index is not None:
            _checks.readable(operation, block_mask=index)
            part = to_map(index.to(torch.int32), count.to(torch.int32), num_kv)
            kept = part if kept is None else kept | part
    if block_mask.mask_mod is not noop_mask and bool(block_mask.kv_num_blocks.any()):
        raise ValueError(f"[{operation}] block_mask: expected whole blocks only, got blocks that mask_mod cuts within")
    extents = [_repeated(operation, name, wanted, have)
               for name, wanted, have in (("batch", batch, kept.shape[0]), ("num_heads", num_heads, kept.shape[1]))]
    return tuple([_new(operation, "batch, num_heads", table, (*extents, *table.shape[2:])).copy_(table)
                  for table in from_map(kept)])


def to_block_mask(lut, lut_count, *, seq_lengths, block_size):
    """To a BlockMask of whole blocks; seq_lengths (Sq, Sk) and block_size (q, kv) in tokens."""
    from torch.nn.attention.flex_attention import BlockMask

    operation = "to_block_mask"
    lut, lut_count = _pair(operation, lut, lut_count)
    seq_lengths = _checks.pair(operation, "seq_lengths", seq_lengths, 1)
    block_size = _checks.pair(operation, "block_size", block_size, 1)
    num_q = -(-seq_lengths[0] // block_size[0])
    if lut.shape[2] != num_q:
        raise ValueError(f"[{operation}] lut: expected {num_q} query tiles, as seq_lengths and block_size say, got "
                         f"{lut.shape[2]}")
    num_kv = -(-seq_lengths[1] // block_size[1])
    lut, lut_count = from_map(to_map(lut, lut_count, num_kv), pitch=num_kv)
    return BlockMask.from_kv_blocks(torch.zeros_like(lut_count), torch.zeros_like(lut), lut_count,
                                    lut.clamp(min=0), BLOCK_SIZE=block_size, seq_lengths=seq_lengths)


def _four_axes(operation, name, tensor):
    _checks.readable(operation, **{name: tensor})
    if tensor.dim() == 3:
        tensor = tensor.unsqueeze(0)
    if tensor.dim() != 4:
        raise ValueError(f"[{operation}] {name}: expected [B,H,Nq,Nk] or [H,Nq,Nk], got {tuple(tensor.shape)}")
    return tensor


def _pair(operation, index, count):
    """Both as int32 of fitting shapes, counts within the pitch. Entries that no int32 holds are no tiles: refused,
    as is any other outside; what lies behind the count does not matter."""
    _checks.readable(operation, lut=index, lut_count=count)
    for name, tensor in (("lut", index), ("lut_count", count)):
        if tensor.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"[{operation}] {name}: expected int32 or int64, got {tensor.dtype}")
    if index.dim() != 4 or count.shape != index.shape[:-1] or index.device != count.device:
        raise ValueError(f"[{operation}] lut_count: expected the extents and device of lut without the last axis, "
                         f"got {tuple(count.shape)} for {tuple(index.shape)}")
    if count.numel() and (int(count.min()) < 0 or int(count.max()) > index.shape[-1]):
        raise ValueError(f"[{operation}] lut_count: expected 0 to {index.shape[-1]}, got one outside")
    if index.dtype == torch.int64:
        index = index.masked_fill(_tail(count, index.shape[-1]), -1)
        if index.numel() and max(int(index.max()), -int(index.min())) > _checks.MAX_TOKENS:
            raise ValueError(f"[{operation}] lut: expected indices of tiles, got one beyond int32")
    return index.to(torch.int32), count.to(torch.int32)


def _pitch(operation, pitch, longest):
    """The width of a table, as an int that the longest row fits in."""
    found = _checks._int(pitch)
    if found is None or not longest <= found <= _checks.MAX_TOKENS:
        raise ValueError(f"[{operation}] pitch: expected at least {longest}, the longest row, and below 2^31, got "
                         f"{pitch!r}")
    return found


def _repeated(operation, name, wanted, have):
    """The extent of an axis of extent `have` that is to be repeated to `wanted`, None for none."""
    found = have if wanted is None else _checks._int(wanted)
    if found is None or not 1 <= found <= _checks.MAX_TOKENS or have not in (1, found):
        expected = f"{have}, as the mask has" if have != 1 else "a positive int"
        raise ValueError(f"[{operation}] {name}: expected {expected}, got {wanted!r}")
    return found


def _new(operation, argument, like, shape):
    """A tensor with the dtype and device of `like`; `argument` is what asked for that shape."""
    try:
        return like.new_empty(shape)
    except RuntimeError:  # PyTorch's lack of memory on the CPU: everything else has been checked
        raise torch.OutOfMemoryError(f"[{operation}] {argument}: expected room for a table {list(shape)}, got "
                                     "none") from None


def _longest(count):
    return int(count.max()) if count.numel() else 0


def _tail(count, pitch):
    """[..., pitch] bool: behind the count."""
    return torch.arange(pitch, device=count.device) >= count.unsqueeze(-1)
