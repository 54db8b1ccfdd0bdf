"""Wrong arguments are named errors: never a crash, never a wrong or a silently dense answer."""

import math

import pytest
import torch

import vsa_torch

GRID = (5, 6, 7)


def operator(query=None, key=None, value=None, gate=None, **change):
    x = torch.ones(1, 210, 2, 16)
    arguments = dict(grid=GRID, topk=3) | change
    return vsa_torch.video_sparse_attention(x if query is None else query, x if key is None else key,
                                            x if value is None else value, gate, **arguments)


X = torch.ones(1, 210, 2, 16)
WRONG = {
    "mixed_dtypes": (dict(key=X.bfloat16()), r"key: expected float32 .*, got bfloat16"),
    "mixed_devices": (dict(value=X.to("meta")), r"value: expected .* on cpu, got .* on meta"),
    "integers": (dict(query=X.int()), r"query: expected float32, .*got int32"),
    "three_axes": (dict(query=X[0]), r"query: expected \[B,S,H,D\]"),
    "strided_last_axis": (dict(query=torch.ones(1, 210, 2, 32)[..., ::2]),
                          r"query: expected the last axis contiguous"),
    "grid_of_another_length": (dict(grid=(5, 6, 8)), r"query: expected float32 \[1,240,2,16\]"),
    "grid_of_two": (dict(grid=(30, 7)), r"grid: expected three positive ints"),
    "grid_with_zero": (dict(grid=(0, 6, 7)), r"grid: expected three positive ints"),
    "grid_of_floats": (dict(grid=(5.0, 6, 7)), r"grid: expected three positive ints"),
    "grid_that_overflows": (dict(grid=(2**40, 2**40, 2**40)), r"query: expected float32"),
    "large_tile": (dict(tile_shape=(8, 8, 8), topk=1), r"tile"),
    "other_value": (dict(value=torch.ones(1, 210, 1, 16)), r"value: expected"),
    "heads_that_do_not_divide": (dict(query=torch.ones(1, 210, 3, 16)), r"key: expected a number of heads"),
    "gate_of_another_shape": (dict(gate=X[:, :1]), r"gate_coarse: expected"),
    "gate_nan": (dict(gate=math.nan), r"gate_coarse: expected a finite number"),
    "T04_topk_zero": (dict(topk=0), r"topk: expected 1 to 8"),
    "T04_topk_negative": (dict(topk=-1), r"topk: expected 1 to 8"),
    "T04_topk_above": (dict(topk=13), r"topk: expected 1 to 8"),
    "T04_sparsity_nan": (dict(topk=None, sparsity=math.nan), r"sparsity: expected a finite"),
    "topk_and_sparsity": (dict(sparsity=0.5), r"topk: expected either topk or sparsity, got both"),
    "neither": (dict(topk=None), r"topk: expected either topk or sparsity, got neither"),
    "scale_inf": (dict(scale=math.inf), r"scale: expected a finite number"),
    "prefix_negative": (dict(prefix=(-1,)), r"prefix: expected lengths"),
    "empty_batch": (dict(query=X[:0], key=X[:0], value=X[:0]), r"q: expected"),
}


@pytest.mark.parametrize("name", WRONG)
def test_value_error_names_the_argument(name):
    change, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        operator(**change)


def test_T20_head_dim_that_the_cpu_lacks_is_not_implemented():
    x = torch.ones(1, 210, 1, 12)
    with pytest.raises(NotImplementedError, match="head_dim that is a multiple of 8 up to 256"):
        operator(x, x, x)


def test_T22_no_positional_argument_can_shift():
    with pytest.raises(TypeError):
        vsa_torch.video_sparse_attention(X, X, X, None, GRID)
    with pytest.raises(TypeError, match="query: expected a tensor, got list"):
        operator(query=[1.0])


def table(rows, count=None, dtype=torch.int32):
    lut = torch.tensor(rows, dtype=dtype).expand(1, 2, 8, len(rows)).contiguous()
    return lut, torch.full((1, 2, 8), len(rows) if count is None else count, dtype=dtype)


WRONG_LISTS = {
    "int64": (table([0, 1], dtype=torch.int64), r"lut: expected int32"),
    "descending": (table([1, 0]), r"lut"),
    "twice": (table([1, 1]), r"lut"),
    "T32_beyond_the_last_tile": (table([0, 8]), r"lut"),
    "negative": (table([-1, 0]), r"lut"),
    "count_above_pitch": (table([0, 1], count=3), r"lut"),
    "T34_rows_of_another_tile_shape": ((torch.zeros(1, 2, 4, 1).int(), torch.ones(1, 2, 4).int()), r"lut"),
    "other_device": ((table([0])[0].to("meta"), table([0])[1]), r"lut: expected int32 .* on cpu"),
}


@pytest.mark.parametrize("name", WRONG_LISTS)
def test_lists_are_checked(name):
    lists, message = WRONG_LISTS[name]
    with pytest.raises(ValueError, match=message):
        vsa_torch.block_sparse_attention(X, X, X, *lists, grid=GRID)


def test_a_side_is_a_grid_or_tile_lengths():
    lists = table([0])
    with pytest.raises(ValueError, match="either grid or q_tile_len, got neither"):
        vsa_torch.block_sparse_attention(X, X, X, *lists)
    with pytest.raises(ValueError, match="either grid or q_tile_len, got both"):
        vsa_torch.block_sparse_attention(X, X, X, *lists, grid=GRID, q_tile_len=[64])
    with pytest.raises(ValueError, match="tile_len"):
        x = torch.ones(1, 512, 2, 16)
        vsa_torch.block_sparse_attention(x, x, x, *lists, q_tile_len=[64] * 7 + [65])


def test_operators_called_directly_check_too():
    op = torch.ops.vsa.video_sparse_attention
    with pytest.raises(ValueError, match="q: expected"):
        op(X, X, X, None, None, 0.0, [5, 6, 8], [4, 4, 4], 3, None, [], [], [], "none", False)
    with pytest.raises(ValueError, match="grid: expected"):
        op(X, X, X, None, None, 0.0, [5, 6], [4, 4, 4], 3, None, [], [], [], "none", False)
    with pytest.raises(ValueError, match="coarse_rounding: expected none or bfloat16, got half"):
        op(X, X, X, None, None, 0.0, [5, 6, 7], [4, 4, 4], 3, None, [], [], [], "half", False)
    with pytest.raises(ValueError, match="save_for_backward"):
        x = X.clone().requires_grad_()
        op(x, X, X, None, None, 0.0, [5, 6, 7], [4, 4, 4], 3, None, [], [], [], "none", False)[0].sum().backward()
