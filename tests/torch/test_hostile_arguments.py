"""Whatever a public function is given: an answer, or an error of the promised kinds that names operation and argument."""

import fractions
import math
import re

import pytest
import torch

import vsa_torch
from vsa_torch import lists
from vsa_torch.compat import aiter

PROMISED = (ValueError, TypeError, NotImplementedError, torch.OutOfMemoryError)
TEXT = re.compile(r"\[\w+\] (\w+(, \w+)*: expected .* got|expected no )", re.DOTALL)

X, TILED = torch.ones(1, 210, 2, 16), torch.ones(1, 512, 2, 16)
LUT, COUNT = torch.zeros(1, 2, 8, 1, dtype=torch.int32), torch.ones(1, 2, 8, dtype=torch.int32)
MAP = torch.zeros(1, 2, 4, 6, dtype=torch.bool).index_fill(3, torch.tensor([0]), True)
Q = torch.ones(1, 2, 300, 128, dtype=torch.float16)
DELTA, DELTA_COUNT = torch.zeros(1, 2, 3, 3, dtype=torch.int32), torch.ones(1, 2, 3, dtype=torch.int32)
GRID = {"grid": (5, 6, 7), "tile_shape": (4, 4, 4), "prefix": None}
QKV = {"query": X, "key": X, "value": X}
OLDER = dict.fromkeys(["out", "bias", "lse", "seqstart_q", "seqstart_k"]) | {
    "strict": False, "batch": 1, "nhead_k": 2, "i_perm": 1, "mod": 0}


def block_mask():
    return lists.to_block_mask(*lists.from_map(MAP), seq_lengths=(512, 768), block_size=(128, 128))


CALLS = {
    vsa_torch.video_sparse_attention: QKV | GRID | {
        "gate_coarse": None, "topk": 3, "sparsity": None, "scale": None, "gate_fine": None, "q_tile_len": None,
        "kv_tile_len": None, "coarse_rounding": "none", "return_lse": False},
    vsa_torch.coarse_select: QKV | GRID | {"topk": 3, "sparsity": None, "scale": None, "coarse_rounding": "none"},
    vsa_torch.block_sparse_attention: QKV | {
        "lut": LUT, "lut_count": COUNT, "tile_shape": (4, 4, 4), "grid": (5, 6, 7), "kv_grid": None, "q_tile_len": None,
        "kv_tile_len": None, "scale": None, "return_lse": False},
    vsa_torch.tile: GRID | {"x": X},
    vsa_torch.untile: GRID | {"tiled": TILED},
    vsa_torch.tile_lengths: GRID,
    vsa_torch.num_tiles: GRID,
    vsa_torch.topk_from_sparsity: {"sparsity": 0.5, "num_kv_tiles": 8},
    lists.from_map: {"block_map": MAP, "pitch": None},
    lists.to_map: {"lut": LUT, "lut_count": COUNT, "num_kv_tiles": 8},
    lists.from_onehot: {"onehot": MAP.to(torch.uint8), "pitch": None},
    lists.to_onehot: {"lut": LUT, "lut_count": COUNT, "num_kv_tiles": 8},
    lists.from_absolute: {"index": LUT, "count": COUNT},
    lists.from_delta: {"delta": LUT, "count": COUNT},
    lists.to_delta: {"lut": LUT, "lut_count": COUNT, "pitch": None},
    lists.from_block_mask: {"block_mask": block_mask(), "batch": 1, "num_heads": 2},
    lists.to_block_mask: {"lut": LUT, "lut_count": COUNT, "seq_lengths": (1024, 1024), "block_size": (128, 128)},
    aiter.vsa_sparse_attention: {"q": Q, "k": Q, "v": Q, "block_lut": DELTA, "block_counts": DELTA_COUNT} | OLDER,
    aiter.jenga_sparse_attention: {
        "q": Q, "k": Q, "v": Q, "block_relation_onehot": torch.ones(1, 2, 3, 3, dtype=torch.bool)} | OLDER,
}
ARGUMENTS = [(function, name) for function, arguments in CALLS.items() for name in arguments]


def values():
    numpy = pytest.importorskip("numpy")
    return [
        None, True, "x", "4", b"4", "none", -1, 0, 1, 2**31 - 1, 2**70, -2**70, 10**400, 1.5, math.nan, math.inf, 1e300,
        1j, fractions.Fraction(10**400), object(), int, lambda: 1, torch.float32, numpy.float32(2), numpy.bool_(True),
        [], (), {}, {"a": 1}, [None], [math.nan], ["a"], [[1, 2], [3]], range(3), iter([5, 6, 7]), (4, 4), (4, 4, 4, 4),
        (-1, 4, 4), (2**31, 1, 1), (2**40, 2**40, 2**40), torch.Size([1, 2]), numpy.array([1, 2, 3]), numpy.array("x"),
        torch.tensor(1), torch.tensor(1.5), torch.tensor(True), torch.tensor([4, 4, 4]), torch.tensor([math.nan]),
        torch.zeros(0), torch.ones(3, device="meta"), torch.ones((), device="meta", dtype=torch.int64),
    ]


def tensors(good):
    """What is nearly right: another rank, extent, dtype, device, layout or content."""
    other = [good[0], good[None], good[:0], good[:, :0], good[..., :0], good[:, :, :1], good[:, :, :-1], good.flatten(),
             good.repeat(*[2] * good.dim()), good.expand(3, *good.shape[1:]), good[..., :1].expand(good.shape),
             good.transpose(-1, -2), good.to("meta"), good.to_sparse(), torch.nested.nested_tensor([good[0]]),
             -good.int(), good.int() * 1000, torch.nn.Parameter(good.float())]
    dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool,
              torch.uint8, torch.complex64, torch.float8_e4m3fn]
    return other + [good.to(dtype) for dtype in dtypes]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function, name", ARGUMENTS, ids=[f"{function.__name__}-{name}" for function, name in ARGUMENTS])
def test_p16_an_argument_is_taken_or_named(function, name):
    arguments = CALLS[function]
    good = arguments[name]
    function(**arguments)
    for value in values() + (tensors(good) if isinstance(good, torch.Tensor) else []):
        try:
            function(**arguments | {name: value})
        except PROMISED as error:
            assert TEXT.match(str(error)), f"{value!r}: {error!r}"


@pytest.mark.parametrize("batch, num_heads", [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_p16_a_block_mask_is_repeated_or_its_axis_named(batch, num_heads):
    block_map = torch.rand(batch, num_heads, 4, 6) < 0.5
    mask = lists.to_block_mask(*lists.from_map(block_map), seq_lengths=(512, 768), block_size=(128, 128))
    assert torch.equal(lists.to_map(*lists.from_block_mask(mask), 6), block_map)  # as the mask is
    for wanted in ({"batch": 2, "num_heads": 3}, {"batch": 2}, {"num_heads": 3}, {"batch": 4, "num_heads": 4}):
        extents = [wanted.get("batch", batch), wanted.get("num_heads", num_heads)]
        wrong = [name for name, have, want in zip(("batch", "num_heads"), (batch, num_heads), extents)
                 if have not in (1, want)]
        if wrong:
            with pytest.raises(ValueError, match=rf"\[from_block_mask\] {wrong[0]}: expected"):
                lists.from_block_mask(mask, **wanted)
        else:
            lut, count = lists.from_block_mask(mask, **wanted)
            assert lut.is_contiguous() and count.is_contiguous()
            assert torch.equal(lists.to_map(lut, count, 6), block_map.expand(*extents, 4, 6))
