"""AITER's functions: blocks of 128 tokens, delta lists, maps; AITER's own cases and refusals."""

import pytest
import torch

import restatement
from vsa_torch import lists
from vsa_torch.compat import aiter

BLOCK = 128


def attention(q, k, v, kept):
    mask = kept.repeat_interleave(BLOCK, 2)[:, :, :q.shape[2]].repeat_interleave(BLOCK, 3)[..., :k.shape[2]]
    out, _ = restatement.masked_attention(*(t.double().transpose(1, 2) for t in (q, k, v)), mask, q.shape[-1] ** -0.5)
    return out.transpose(1, 2)


def random_map(rows, columns, active, heads=2, batch=1):
    order = torch.rand(batch, heads, rows, columns, generator=torch.Generator().manual_seed(7)).argsort(-1)
    return order < active


@pytest.mark.parametrize("active", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parity_case_of_aiter(make, close, dtype, active):
    q, k, v = make(1, 2, 257, 128, dtype=dtype), *(make(1, 2, 481, 128, dtype=dtype) for _ in range(2))
    kept = random_map(3, 4, active)
    delta, counts = lists.to_delta(*lists.from_map(kept), pitch=4)
    out = aiter.vsa_sparse_attention(q, k, v, delta, counts, strict=True)
    close(out, attention(q, k, v, kept))
    assert torch.equal(aiter.jenga_sparse_attention(q, k, v, kept.byte(), strict=True), out)
    assert torch.equal(aiter.jenga_sparse_attention(q, k, v, kept), out)


def test_T24_T25_delta_lists_with_groups_of_heads(make, close):
    q = make(1, 4, 200, 128, dtype=torch.float16)
    k, v = (make(1, 2, 300, 128, dtype=torch.float16) for _ in range(2))
    delta = torch.zeros(1, 4, 2, 3, dtype=torch.int32)
    delta[..., 1] = 2
    out = aiter.vsa_sparse_attention(q, k, v, delta, torch.full((1, 4, 2), 2, dtype=torch.int32), strict=True)
    kept = torch.tensor([True, False, True]).expand(1, 4, 2, 3)
    close(out, attention(q, k, v, kept))


def test_the_encoding_is_delta_and_not_absolute(make):
    """First index above 0 and two entries: there the two readings differ."""
    q, k = make(1, 1, 128, 16), make(1, 1, 512, 16)
    delta = torch.tensor([1, 2, 0, 0]).int().reshape(1, 1, 1, 4)
    out = aiter.vsa_sparse_attention(q, k, k, delta, torch.tensor([[[2]]]).int())
    by_map = torch.tensor([False, True, False, True]).reshape(1, 1, 1, 4)
    assert torch.equal(out, aiter.jenga_sparse_attention(q, k, k, by_map))


def test_wider_than_aiter_rows_may_keep_everything_or_nothing(make, close):
    q, k = make(1, 1, 256, 16), make(1, 1, 100, 16)
    counts = torch.tensor([[[1, 0]]]).int()
    out = aiter.vsa_sparse_attention(q, k, k, torch.zeros(1, 1, 2, 1).int(), counts)
    dense = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), k.double())
    close(out[:, :, :128], dense[:, :, :128])
    assert not out[:, :, 128:].any()


def test_the_older_form_writes_into_out(make):
    q, k = make(1, 2, 256, 128, dtype=torch.bfloat16), make(1, 2, 384, 128, dtype=torch.bfloat16)
    delta, counts = lists.to_delta(*lists.from_map(random_map(2, 3, 2)), pitch=3)
    out = torch.zeros_like(q)
    returned = aiter.vsa_sparse_attention(q, k, k, delta, counts, out, batch=1, nhead=2, nhead_k=2, seqlen_q=256,
                                          seqlen_k=384, hdim_q=128, hdim_v=128)
    assert returned is out and torch.equal(out, aiter.vsa_sparse_attention(q, k, k, delta, counts))


def case(**change):
    q, k = torch.ones(1, 2, 256, 128).half(), torch.ones(1, 2, 384, 128).half()
    arguments = dict(q=q, k=k, v=k, block_lut=torch.zeros(1, 2, 2, 3).int(), block_counts=torch.ones(1, 2, 2).int())
    return arguments | change


Q, K, LUT, COUNTS = (case()[name] for name in ("q", "k", "block_lut", "block_counts"))
STRICT = {
    "float32": (dict(q=Q.float(), k=K.float(), v=K.float()), "q: expected float16 or bfloat16"),
    "head_dim": (dict(q=Q[..., :64].clone(), k=K[..., :64].clone(), v=K[..., :64].clone()), "128"),
    "three_axes": (dict(q=Q[0]), "q: expected"),
    "q_strided": (dict(q=Q.transpose(1, 2).contiguous().transpose(1, 2)), "q: expected contiguous"),
    "k_strided": (dict(k=K.transpose(1, 2).contiguous().transpose(1, 2)), "k: expected contiguous"),
    "lut_strided": (dict(block_lut=torch.zeros(1, 2, 3, 2).int().transpose(2, 3)), "block_lut: expected contiguous"),
    "few_keys": (dict(k=K[:, :, :128].clone(), v=K[:, :, :128].clone(), block_lut=LUT[..., :1].clone()), "k: expected more than 128"),
    "lut_int64": (dict(block_lut=LUT.long()), "block_lut: expected int32"),
    "counts_int64": (dict(block_counts=COUNTS.long()), "block_counts: expected int32"),
    "lut_width": (dict(block_lut=LUT[..., :2].clone()), "block_lut: expected int32"),
    "lut_heads": (dict(block_lut=LUT[:, :1].clone(), block_counts=COUNTS[:, :1].clone()), "block_lut"),
    "counts_rows": (dict(block_counts=COUNTS[..., :1].clone()), "block_counts"),
    "count_zero": (dict(block_counts=COUNTS * 0), "block_counts: expected 1 to 2"),
    "count_all": (dict(block_lut=torch.tensor([0, 1, 1]).int().repeat(1, 2, 2, 1), block_counts=COUNTS * 3), "block_counts: expected 1 to 2"),
}
ALWAYS = {
    "mixed_dtypes": (dict(k=K.bfloat16()), "key: expected float16"),
    "mixed_devices": (dict(v=K.to("meta")), "value: expected .* on cpu"),
    "value_shape": (dict(v=K[:, :1]), "value: expected"),
    "heads": (dict(k=K.repeat(1, 2, 1, 1)[:, :3], v=K.repeat(1, 2, 1, 1)[:, :3]), "key: expected a number of heads"),
    "batch": (dict(k=K.repeat(2, 1, 1, 1), v=K.repeat(2, 1, 1, 1)), "key: expected"),
    "block_beyond": (dict(block_lut=LUT + 3), "lut"),
    "block_twice": (dict(block_counts=COUNTS * 2), "lut"),
    "count_above_width": (dict(block_counts=COUNTS * 4), "lut_count|block_counts"),
    "counts_negative": (dict(block_counts=-COUNTS), "lut_count|block_counts"),
    "lut_float": (dict(block_lut=LUT.float()), "lut"),
    "out_shape": (dict(out=Q[:, :, :1].clone()), "out: expected"),
    "extents": (dict(nhead=7), "nhead: expected 2"),
}


@pytest.mark.parametrize("name", STRICT)
def test_T24_strict_mode_refuses_what_aiter_refuses(name):
    change, message = STRICT[name]
    with pytest.raises(ValueError, match=message):
        aiter.vsa_sparse_attention(**case(**change), strict=True)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ALWAYS)
def test_T24_wrong_in_any_mode(name, strict):
    change, message = ALWAYS[name]
    with pytest.raises(ValueError, match=message):
        aiter.vsa_sparse_attention(**case(**change), strict=strict)


@pytest.mark.parametrize("change", [dict(bias=Q), dict(lse=Q), dict(i_perm=False), dict(bias_type=1)])
def test_what_there_is_not_says_so(change):
    with pytest.raises(NotImplementedError, match=rf"\[vsa_sparse_attention\] {next(iter(change))}: expected"):
        aiter.vsa_sparse_attention(**case(**change))


def test_unknown_arguments_and_gradients_through_out():
    with pytest.raises(TypeError, match="unexpected keyword argument dropout"):
        aiter.vsa_sparse_attention(**case(dropout=0.1))
    with pytest.raises(ValueError, match="out: expected none where a gradient"):
        aiter.vsa_sparse_attention(**case(q=Q.clone().requires_grad_(), out=torch.zeros_like(Q)))


def test_T32_a_map_for_longer_keys_is_refused():
    with pytest.raises(ValueError, match="block_relation_onehot: expected 3 key blocks, got 4"):
        aiter.jenga_sparse_attention(Q, K, K, torch.ones(1, 2, 2, 4).byte())


@pytest.mark.parametrize("change, message", [(dict(q=Q[0]), r"q: expected \[B,H,S,D\]"),
                                             (dict(k=K[:, :, :0]), r"k: expected \[B,H,S,D\], none of them 0")])
def test_tensors_of_other_axes_are_named(change, message):
    for function, lists_of in ((aiter.vsa_sparse_attention, (LUT, COUNTS)),
                               (aiter.jenga_sparse_attention, (torch.ones(1, 2, 2, 3).byte(),))):
        arguments = dict(q=Q, k=K, v=K) | change
        with pytest.raises(ValueError, match=message):
            function(*arguments.values(), *lists_of)
