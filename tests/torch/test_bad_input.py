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
    "grid_of_another_length": (dict(grid=(5, 6, 8)), r"query: expected a sequence of 240, as grid says"),
    "key_of_another_length": (dict(key=X[:, :209]), r"key: expected a sequence of 210, as grid says"),
    "prefix_that_is_not_there": (dict(prefix=[30]), r"query: expected a sequence of 240, as grid with prefix says"),
    "grid_of_two": (dict(grid=(30, 7)), r"grid: expected three positive ints"),
    "grid_with_zero": (dict(grid=(0, 6, 7)), r"grid: expected three positive ints"),
    "grid_of_floats": (dict(grid=(5.0, 6, 7)), r"grid: expected three positive ints"),
    "grid_of_bools": (dict(grid=(True, 6, 35)), r"grid: expected three positive ints"),
    "grid_int": (dict(grid=210), r"grid: expected three positive ints"),
    "grid_that_overflows": (dict(grid=(2**40, 2**40, 2**40)), r"grid: expected .* below 2\^31"),
    "grid_beyond_int64": (dict(grid=(2**70, 1, 1)), r"grid: expected .* below 2\^31"),
    "grid_of_too_many_tokens": (dict(grid=(2**30, 2**30, 2**30)), rf"query: expected a sequence of {2**90}"),
    "large_tile": (dict(tile_shape=(8, 8, 8), topk=1), r"tile_shape: expected at most 256 tokens"),
    "tile_beyond_int64": (dict(tile_shape=(2**70, 1, 1)), r"tile_shape: expected .* below 2\^31"),
    "prefix_beyond_int64": (dict(prefix=[2**70]), r"prefix: expected lengths"),
    "prefix_of_floats": (dict(prefix=[7.0]), r"prefix: expected lengths"),
    "sparse_tensor": (dict(query=X.to_sparse()), r"query: expected a strided tensor"),
    "expanded_last_axis": (dict(key=X[..., :1].expand(X.shape)), r"key: expected the last axis contiguous, got stride 0"),
    "other_value": (dict(value=torch.ones(1, 210, 1, 16)), r"value: expected"),
    "heads_that_do_not_divide": (dict(query=torch.ones(1, 210, 3, 16)), r"key: expected a number of heads"),
    "gate_of_another_shape": (dict(gate=X[:, :1]), r"gate_coarse: expected"),
    "gate_nan": (dict(gate=math.nan), r"gate_coarse: expected a finite number"),
    "T04_topk_zero": (dict(topk=0), r"topk: expected 1 to 8"),
    "T04_topk_negative": (dict(topk=-1), r"topk: expected 1 to 8"),
    "T04_topk_above": (dict(topk=13), r"topk: expected 1 to 8"),
    "topk_float": (dict(topk=3.0), r"topk: expected 1 to 8"),
    "topk_bool": (dict(topk=True), r"topk: expected 1 to 8"),
    "sparsity_in_per_cent": (dict(topk=None, sparsity=87.5), r"sparsity: expected a share of at most 1, got 87.5"),
    "T04_sparsity_nan": (dict(topk=None, sparsity=math.nan), r"sparsity: expected a finite"),
    "topk_and_sparsity": (dict(sparsity=0.5), r"topk: expected either topk or sparsity, got both"),
    "neither": (dict(topk=None), r"topk: expected either topk or sparsity, got neither"),
    "scale_inf": (dict(scale=math.inf), r"scale: expected a finite number"),
    "scale_beyond_float32": (dict(scale=1e300), r"scale: expected a finite number"),
    "gate_fine_beyond_float32": (dict(gate_fine=1e300), r"gate_fine: expected a finite number"),
    "rounding": (dict(coarse_rounding=None), r"coarse_rounding: expected none or bfloat16"),
    "prefix_negative": (dict(prefix=(-1,)), r"prefix: expected lengths"),
    "empty_batch": (dict(query=X[:0], key=X[:0], value=X[:0]), r"query: expected \[B,S,H,D\], none of them 0"),
    "no_heads": (dict(query=X[:, :, :0], key=X[:, :, :0], value=X[:, :, :0]), r"query: expected .* none of them 0"),
    "no_key_heads": (dict(key=X[:, :, :0], value=X[:, :, :0]), r"key: expected a number of heads"),
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


@pytest.mark.parametrize("change", [dict(scale="1"), dict(scale=True), dict(scale=torch.tensor(1.0)), dict(gate="x"),
                                    dict(topk=None, sparsity="0.5"), dict(topk=None, sparsity=torch.tensor(0.5))])
def test_what_is_no_number_is_a_type_error(change):
    name = "gate_coarse" if "gate" in change else list(change)[-1]
    with pytest.raises(TypeError, match=rf"\[video_sparse_attention\] {name}: expected a number, got"):
        operator(**change)


def test_ints_of_numpy_and_tensors_are_ints():
    numpy = pytest.importorskip("numpy")
    want = operator()
    for grid in (numpy.array(GRID), torch.tensor(GRID), torch.Size(GRID), list(GRID)):
        assert torch.equal(operator(grid=grid, topk=numpy.int64(3)), want)


@pytest.mark.parametrize("lengths, message", [
    ([64.0, 64], "64.0 for tile 0"), ([64, 65], "65 for tile 1"), ([64, -1], "-1 for tile 1"), ([], "none"),
    ([2**70, 64], f"{2**70} for tile 0"), (torch.tensor([64.0, 64.0]), "64.0 for tile 0"),
    (torch.tensor([[64, 64]]), r"\[64, 64\] for tile 0"), ("ab", "'ab' for tile 0")])
def test_tile_lengths_are_checked(lengths, message):
    x = torch.ones(1, 128, 2, 16)
    for name in ("q_tile_len", "kv_tile_len"):
        call = dict(q_tile_len=[64, 64]) | {name: lengths}
        with pytest.raises(ValueError, match=f"{name}: expected 0 to 64 valid tokens for each tile, got {message}"):
            vsa_torch.video_sparse_attention(x, x, x, topk=1, **call)


@pytest.mark.parametrize("call, error, message", [
    (lambda: vsa_torch.tile([1.0], grid=GRID), TypeError, r"\[tile\] x: expected a tensor, got list"),
    (lambda: vsa_torch.tile(X[0], grid=GRID), ValueError, r"\[tile\] x: expected \[B,S,H,D\]"),
    (lambda: vsa_torch.tile(X.int(), grid=GRID), ValueError, r"x: expected float32, .* got int32"),
    (lambda: vsa_torch.tile(X[..., ::2], grid=GRID), ValueError, "x: expected the last axis contiguous"),
    (lambda: vsa_torch.tile(X, grid=(5, 6, 8)), ValueError, "x: expected a sequence of 240, as grid says"),
    (lambda: vsa_torch.untile(X, grid=GRID), ValueError, "tiled: expected a sequence of 512, as grid says"),
    (lambda: vsa_torch.tile(X, grid=(2**70, 1, 1)), ValueError, r"grid: expected .* below 2\^31"),
    (lambda: vsa_torch.tile(X, grid=GRID, prefix=[2**63]), ValueError, "prefix: expected"),
    (lambda: vsa_torch.coarse_select(X, X, X, grid=None, topk=1), ValueError, "grid: expected three positive ints"),
    (lambda: vsa_torch.num_tiles(GRID, prefix=[-500]), ValueError, r"\[num_tiles\] prefix: expected"),
    (lambda: vsa_torch.tile_lengths(GRID, prefix=[2.5]), ValueError, r"\[tile_lengths\] prefix: expected"),
    (lambda: vsa_torch.num_tiles((2**70, 1, 1)), ValueError, r"\[num_tiles\] grid: expected"),
    (lambda: vsa_torch.topk_from_sparsity(0.5, 2.5), ValueError, "num_kv_tiles: expected 1 to"),
])
def test_the_other_functions_check_too(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_forward_mode_derivatives_are_refused_and_not_zero():
    def call(x):
        return operator(query=x)

    with pytest.raises(NotImplementedError, match="video_sparse_attention. expected no forward-mode"):
        torch.func.jvp(call, (X,), (X,))
    with pytest.raises(NotImplementedError, match="tile. expected no forward-mode"):
        torch.func.jvp(lambda x: vsa_torch.tile(x, grid=GRID), (X,), (X,))
    with torch.autograd.forward_ad.dual_level():
        assert torch.equal(call(X), operator())  # a level alone hinders nothing


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
    "no_pitch": ((torch.zeros(1, 2, 8, 0).int(), torch.zeros(1, 2, 8).int()), r"lut: expected int32 .* none of them 0"),
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
        op(X, X, X, None, None, 0.0, 1.0, [5, 6, 8], [4, 4, 4], 3, None, [], [], [], "none", False)
    with pytest.raises(ValueError, match="grid: expected"):
        op(X, X, X, None, None, 0.0, 1.0, [5, 6], [4, 4, 4], 3, None, [], [], [], "none", False)
    with pytest.raises(ValueError, match="coarse_rounding: expected none or bfloat16, got half"):
        op(X, X, X, None, None, 0.0, 1.0, [5, 6, 7], [4, 4, 4], 3, None, [], [], [], "half", False)
    with pytest.raises(ValueError, match="save_for_backward"):
        x = X.clone().requires_grad_()
        op(x, X, X, None, None, 0.0, 1.0, [5, 6, 7], [4, 4, 4], 3, None, [], [], [], "none", False)[0].sum().backward()
