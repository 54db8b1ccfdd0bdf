"""fastvideo_kernel's functions against a restatement of their documented behaviour."""

import math

import pytest
import torch

import restatement
import vsa_torch
from vsa_torch.compat import fastvideo

GRID = (5, 6, 7)


def restated(q, k, v, kv_sizes, q_sizes, topk, tokens, gate=None):
    """[B, H, S, D] float64; rows of padding are left out of what is compared."""
    def means(x, sizes):
        blocks = x.unflatten(2, (-1, tokens))
        valid = (torch.arange(tokens) < sizes[:, None]).to(x.dtype)[:, :, None]
        return (blocks * valid).sum(3) / sizes[:, None].clamp(min=1)

    qc, kc, vc = means(q, q_sizes), means(k, kv_sizes), means(v, kv_sizes)
    scores = qc @ kc.transpose(-2, -1) / math.sqrt(q.shape[-1])
    coarse = (scores.softmax(-1) @ vc).repeat_interleave(tokens, dim=2)
    kept = restatement.kept_tiles(scores, topk, 0)
    mask = kept.repeat_interleave(tokens, 2).repeat_interleave(tokens, 3)
    mask = mask & (torch.arange(tokens) < kv_sizes[:, None]).flatten()
    out, _ = restatement.masked_attention(*(t.transpose(1, 2) for t in (q, k, v)), mask, q.shape[-1] ** -0.5)
    return out.transpose(1, 2) + (coarse if gate is None else coarse * gate)


def valid_rows(sizes, tokens):
    return fastvideo.get_non_pad_index(sizes, tokens)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("q_tiles, kv_tiles, topk", [(4, 4, 2), (4, 6, 3), (6, 4, 1)])
def test_video_sparse_attn(make, close, q_tiles, kv_tiles, topk, gated):
    generator = torch.Generator().manual_seed(q_tiles)
    q_sizes, kv_sizes = (torch.randint(16, 65, (n,), generator=generator).int() for n in (q_tiles, kv_tiles))
    q, gate = make(2, 3, q_tiles * 64, 16), make(2, 3, q_tiles * 64, 16)
    k, v = make(2, 3, kv_tiles * 64, 16), make(2, 3, kv_tiles * 64, 16)
    gate = gate if gated else None
    out = fastvideo.video_sparse_attn(q, k, v, kv_sizes, q_sizes, topk, (4, 4, 4), gate)
    want = restated(q.double(), k.double(), v.double(), kv_sizes, q_sizes, topk, 64,
                    None if gate is None else gate.double())
    rows = valid_rows(q_sizes, 64)
    close(out[:, :, rows], want[:, :, rows])
    swapped = fastvideo.video_sparse_attn_bshd(*(t.transpose(1, 2) for t in (q, k, v)), kv_sizes, q_sizes, topk, 64,
                                               None if gate is None else gate.transpose(1, 2))
    assert torch.equal(swapped.transpose(1, 2), out)


def test_T18_padding_is_never_read_and_comes_out_as_zero(make):
    sizes = torch.tensor([64, 17, 64, 3]).int()
    inputs = [make(1, 2, 256, 16) for _ in range(3)]
    clean = fastvideo.video_sparse_attn(*inputs, sizes, sizes, 2)
    padding = torch.ones(256, dtype=torch.bool)
    padding[valid_rows(sizes, 64)] = False
    for x in inputs:
        x[:, :, padding] = math.nan
    assert torch.equal(fastvideo.video_sparse_attn(*inputs, sizes, sizes, 2), clean)
    assert not clean[:, :, padding].any()


def test_gradients_of_video_sparse_attn(make, close):
    sizes = torch.tensor([64, 20, 33]).int()
    inputs = [make(1, 2, 192, 16, requires_grad=True) for _ in range(4)]
    rows = valid_rows(sizes, 64)
    dout = make(1, 2, len(rows), 16)
    out = fastvideo.video_sparse_attn(*inputs[:3], sizes, sizes, 2, 64, inputs[3])
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    want = restated(*doubles[:3], sizes, sizes, 2, 64, doubles[3])
    for grad, expected in zip(torch.autograd.grad(out[:, :, rows], inputs, dout),
                              torch.autograd.grad(want[:, :, rows], doubles, dout.double())):
        close(grad, expected, roundings=16)


def test_T21_an_int_block_size_is_tokens_unless_strict(make):
    q = make(1, 1, 128, 64, dtype=torch.bfloat16)
    sizes = torch.tensor([64, 64]).int()
    assert fastvideo.video_sparse_attn(q, q, q, sizes, sizes, 1).shape == q.shape
    with pytest.raises(ValueError, match="block_size: .* got 262144: an int is the edge of a cube"):
        fastvideo.video_sparse_attn(q, q, q, sizes, sizes, 1, strict=True)
    assert fastvideo.video_sparse_attn(q, q, q, sizes, sizes, 1, (4, 4, 4), strict=True).shape == q.shape


def test_strict_mode_rounds_the_coarse_branch_as_the_original(make):
    """Equal after rounding: the lower index wins there, where float32 tells the tiles apart."""
    q = torch.ones(1, 1, 192, 64, dtype=torch.bfloat16)
    k = torch.ones(1, 1, 192, 64, dtype=torch.bfloat16)
    k[:, :, 64:128, 0] = 1.0078125  # the next bfloat16: 64.0078 against 64, both 64 in bfloat16
    v = torch.arange(3.0).repeat_interleave(64).reshape(1, 1, 192, 1).expand(1, 1, 192, 64).bfloat16()
    sizes, gate = torch.tensor([64, 64, 64]), torch.zeros(1, 1, 192, 64, dtype=torch.bfloat16)
    exact = fastvideo.video_sparse_attn(q, k, v, sizes, sizes, 1, (4, 4, 4), gate)
    strict = fastvideo.video_sparse_attn(q, k, v, sizes, sizes, 1, (4, 4, 4), gate, strict=True)
    assert (exact == 1).all() and (strict == 0).all()


def test_T22_topk_in_the_fifth_place_is_told():
    q = torch.ones(1, 1, 128, 64)
    with pytest.raises(TypeError, match="q_variable_block_sizes: expected a tensor, got int: the fifth"):
        fastvideo.video_sparse_attn(q, q, q, torch.tensor([64, 64]), 1, 64)


def test_T04_topk_beyond_all_tiles_keeps_all(make):
    q, sizes = make(1, 2, 192, 16), torch.tensor([64, 64, 64])
    assert torch.equal(fastvideo.video_sparse_attn(q, q, q, sizes, sizes, 8),
                       fastvideo.video_sparse_attn(q, q, q, sizes, sizes, 3))
    with pytest.raises(ValueError, match="topk"):
        fastvideo.video_sparse_attn(q, q, q, sizes, sizes, 0)


def test_block_sparse_attn_by_map_and_by_indices(make, close):
    q, k, v = make(2, 2, 192, 16), make(2, 2, 256, 16), make(2, 2, 256, 16)
    sizes = torch.tensor([64, 31, 0, 50]).int()
    block_map = torch.rand(2, 2, 3, 4, generator=torch.Generator().manual_seed(2)) < 0.5
    block_map[..., 0] = True
    out, lse = fastvideo.block_sparse_attn(q, k, v, block_map, sizes)
    mask = block_map.repeat_interleave(64, 2).repeat_interleave(64, 3)
    mask = mask & (torch.arange(64) < sizes[:, None]).flatten()
    want, want_lse = restatement.masked_attention(*(t.double().transpose(1, 2) for t in (q, k, v)), mask, 0.25)
    close(out, want.transpose(1, 2))
    close(lse, want_lse)
    index, count = vsa_torch.lists.from_map(block_map)
    flipped = torch.where(torch.arange(index.shape[-1]) < count[..., None], index, 99).flip(-1)
    shuffled = flipped.gather(-1, torch.argsort((flipped == 99).int(), dim=-1, stable=True))
    again, _ = fastvideo.block_sparse_attn_from_indices(q, k, v, shuffled, count, sizes)
    assert torch.equal(again, out)


@pytest.mark.parametrize("own_q_sizes", [False, True])
def test_varlen_is_every_sequence_alone(make, close, own_q_sizes):
    lengths = [(100, 130), (64, 64), (33, 200)]
    sizes = [torch.tensor(s).int() for s in ([64, 40, 26], [64], [64, 64, 64, 8])]
    q_sizes = [torch.tensor(s).int() for s in ([50, 50], [64], [33])]
    q = make(sum(a for a, _ in lengths), 2, 16, requires_grad=True)
    k, v = (make(sum(b for _, b in lengths), 2, 16, requires_grad=True) for _ in range(2))
    index = [torch.tensor([[2, 0], [1, 2]]), torch.tensor([[0]]), torch.tensor([[3, 1, 0]])]
    index = [i.int().expand(1, 2, *i.shape) for i in index]
    num = [torch.full(i.shape[:-1], i.shape[-1], dtype=torch.int32) for i in index]
    cu = [torch.tensor([0, *[sum(pair[side] for pair in lengths[:n + 1]) for n in range(3)]]) for side in (0, 1)]
    out = fastvideo.block_sparse_attn_varlen(q, k, v, *cu, index, num, sizes, q_sizes if own_q_sizes else None)
    assert out.shape == q.shape
    wanted = []
    for i in range(3):
        qs, ks, vs = (x.detach()[c[i]:c[i + 1]].double().unsqueeze(0) for x, c in ((q, cu[0]), (k, cu[1]), (v, cu[1])))
        length = qs.shape[1]
        rows = q_sizes[i].tolist() if own_q_sizes else [min(64, length - s) for s in range(0, length, 64)]
        kept = vsa_torch.lists.to_map(index[i], num[i], len(sizes[i]))
        mask = kept.repeat_interleave(torch.tensor(rows), 2).repeat_interleave(sizes[i], 3)
        wanted.append(restatement.masked_attention(qs, ks, vs, mask, 0.25)[0][0])
    close(out, torch.cat(wanted))
    out.sum().backward()
    assert k.grad[130:194].any() and not k.grad.isnan().any()


def test_varlen_refuses_what_does_not_add_up():
    q = torch.ones(100, 1, 16)
    cu, index, num = torch.tensor([0, 100]), [torch.zeros(1, 1, 2, 1).int()], [torch.ones(1, 1, 2).int()]

    def call(**change):
        arguments = dict(cu_seqlens_q=cu, cu_seqlens_kv=cu, q2k_idx_list=index, q2k_num_list=num,
                         variable_block_sizes_list=[torch.tensor([64, 36])]) | change
        return fastvideo.block_sparse_attn_varlen(q, q, q, **arguments)

    assert call().shape == q.shape
    with pytest.raises(ValueError, match="cu_seqlens_q: expected 0, ascending, up to 100"):
        call(cu_seqlens_q=torch.tensor([0, 90]))
    with pytest.raises(ValueError, match=r"variable_block_sizes_list: expected sums \[100\]"):
        call(variable_block_sizes_list=[torch.tensor([64, 35])])
    with pytest.raises(ValueError, match="lut: expected indices 0 to 1"):
        call(q2k_idx_list=[index[0] + 2])
    with pytest.raises(ValueError, match="q2k_num_list: expected 2 query tiles"):
        call(q2k_num_list=[num[0][..., :1]], q2k_idx_list=[index[0][:, :, :1]])


def test_tiling_helpers(make):
    metadata = fastvideo.build_vsa_metadata(GRID)
    order, back = metadata["tile_partition_indices"], metadata["reverse_tile_partition_indices"]
    tiles = restatement.tile_of_token(GRID, (4, 4, 4))
    assert order.dtype == torch.int64 and torch.equal(order[back], torch.arange(210))
    assert (tiles[order].diff() >= 0).all() and metadata["num_tiles"] == (2, 2, 2)
    assert torch.equal(metadata["variable_block_sizes"], tiles.bincount().int())
    assert metadata["max_block_size"] == 64
    x = make(1, 210, 2, 8)
    padded = torch.zeros(1, 512, 2, 8)
    padded[:, metadata["non_pad_index"]] = x[:, order]
    assert torch.equal(padded, vsa_torch.tile(x, grid=GRID))
    with pytest.raises(ValueError, match="num_tiles"):
        fastvideo.construct_variable_block_sizes(GRID, (1, 1, 1))


def test_the_whole_way_of_a_fastvideo_model_is_the_operator_on_raster_order(make, close):
    q, k, v, gate = (make(1, 210, 2, 16) for _ in range(4))
    metadata = fastvideo.build_vsa_metadata(GRID)
    sizes = metadata["variable_block_sizes"]
    tiled = [vsa_torch.tile(t, grid=GRID).transpose(1, 2) for t in (q, k, v, gate)]
    out = fastvideo.video_sparse_attn(*tiled[:3], sizes, sizes, 3, (4, 4, 4), tiled[3]).transpose(1, 2)
    direct = vsa_torch.video_sparse_attention(q, k, v, gate, grid=GRID, topk=3)
    close(vsa_torch.untile(out, grid=GRID), direct.double())


X = torch.ones(1, 2, 128, 64, dtype=torch.bfloat16)
SIZES = torch.tensor([64, 64])


@pytest.mark.parametrize("change, message", [
    (dict(q=X.float(), k=X.float(), v=X.float()), "q: expected bfloat16"),
    (dict(q=X[..., :32], k=X[..., :32], v=X[..., :32]), "head_dim of 64 or 128, got 32"),
    (dict(k=X[:, :1], v=X[:, :1]), "k: expected 2 heads"),
    (dict(block_size=(4, 4, 8)), "block_size: expected tiles of 64 or 256 tokens, got 128"),
])
def test_strict_mode_takes_what_the_kernels_take(change, message):
    arguments = dict(q=X, k=X, v=X, variable_block_sizes=SIZES, q_variable_block_sizes=SIZES, topk=1,
                     block_size=(4, 4, 4)) | change
    with pytest.raises(ValueError, match=message):
        fastvideo.video_sparse_attn(**arguments, strict=True)
    if "block_size" not in change:
        assert fastvideo.video_sparse_attn(**arguments).shape == arguments["q"].shape
    with pytest.raises(ValueError, match="tiles of 256 tokens, got 64"):
        fastvideo.video_sparse_attn_bshd(X.transpose(1, 2), X.transpose(1, 2), X.transpose(1, 2), SIZES, SIZES, 1,
                                         (4, 4, 4), strict=True)


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="variable_block_sizes: expected one for every 64 slots of q's 128, got 3"):
        fastvideo.video_sparse_attn(X, X, X, SIZES, torch.tensor([64, 64, 64]), 1)
    with pytest.raises(ValueError, match="variable_block_sizes: expected a number of tiles that divides"):
        fastvideo.block_sparse_attn(X, X, X, torch.ones(1, 2, 2, 3).bool(), torch.tensor([64, 64, 64]))


@pytest.mark.parametrize("change, message", [
    (dict(q=X[0]), "q: expected four axes"),
    (dict(variable_block_sizes=SIZES.float()), r"variable_block_sizes: expected ints \[N\], got float32"),
    (dict(q_variable_block_sizes=SIZES[None]), r"q_variable_block_sizes: expected ints \[N\], got int64 \[1,2\]"),
    (dict(variable_block_sizes=SIZES + 1), "expected 0 to 64 valid tokens for each tile, got 65 for tile 0"),
    (dict(topk=1.5), "topk: expected 1 to"),
    (dict(block_size=0), "block_size: expected at least 1"),
    (dict(block_size=(-4, -4, 4)), "block_size: expected three positive ints"),
    (dict(block_size=(4, 16)), "block_size: expected three positive ints"),
    (dict(compress_attn_weight=X[:, :1]), "gate_coarse: expected"),
])
def test_wrong_arguments_are_named(change, message):
    arguments = dict(q=X, k=X, v=X, variable_block_sizes=SIZES, q_variable_block_sizes=SIZES, topk=1) | change
    with pytest.raises(ValueError, match=message):
        fastvideo.video_sparse_attn(**arguments)


@pytest.mark.parametrize("change, name", [(dict(q=[1]), "q"), (dict(variable_block_sizes=[64, 64]), "variable_block_sizes"),
                                          (dict(compress_attn_weight=1.0), "compress_attn_weight")])
def test_what_is_no_tensor_is_named(change, name):
    arguments = dict(q=X, k=X, v=X, variable_block_sizes=SIZES, q_variable_block_sizes=SIZES, topk=1) | change
    with pytest.raises(TypeError, match=f"{name}: expected a tensor, got"):
        fastvideo.video_sparse_attn(**arguments)


@pytest.mark.parametrize("columns", [1, 3])
def test_T32_a_map_for_other_keys_is_refused(columns):
    block_map = torch.ones(1, 2, 2, columns).bool()
    block_map[..., 2:] = False  # nothing is kept beyond the keys, and still the map is another's
    with pytest.raises(ValueError, match=r"block_map: expected \[B,H,Nq,2\], as variable_block_sizes says"):
        fastvideo.block_sparse_attn(X, X, X, block_map, SIZES)
