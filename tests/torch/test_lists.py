"""Encodings of selections: round trips, and what no encoding may hide."""

import pytest
import torch

import vsa_torch
from vsa_torch import lists


@pytest.fixture
def block_map():
    """Rows of 0 to all of 7 tiles, among them a first index above 0."""
    generator = torch.Generator().manual_seed(11)
    block_map = torch.rand(2, 3, 6, 7, generator=generator) < 0.4
    block_map[0, 0, 0], block_map[0, 0, 1] = False, True
    block_map[0, 0, 2] = torch.tensor([0, 0, 1, 0, 1, 1, 0], dtype=torch.bool)
    return block_map


def test_a_map_becomes_ascending_rows_with_tail(block_map):
    lut, count = lists.from_map(block_map)
    assert lut.shape == (2, 3, 6, 7) and lut.dtype == count.dtype == torch.int32
    assert lut[0, 0, 0].tolist() == [-1] * 7 and count[0, 0, 0] == 0
    assert lut[0, 0, 1].tolist() == list(range(7))
    assert lut[0, 0, 2].tolist() == [2, 4, 5, -1, -1, -1, -1]
    assert torch.equal(lists.from_map(block_map[0])[0], lut[:1])


def test_round_trips(block_map):
    lut, count = lists.from_map(block_map)
    assert torch.equal(lists.to_map(lut, count, 7), block_map)
    assert all(torch.equal(a, b) for a, b in zip(lists.from_onehot(lists.to_onehot(lut, count, 7)), (lut, count)))
    delta, counts = lists.to_delta(lut, count)
    assert delta[0, 0, 2].tolist() == [2, 2, 1, 0, 0, 0, 0]
    assert all(torch.equal(a, b) for a, b in zip(lists.from_delta(delta, counts), (lut, count)))
    wide, _ = lists.to_delta(lut, count, pitch=9)
    assert wide.shape[-1] == 9 and torch.equal(wide[..., :7], delta)
    mask = lists.to_block_mask(lut, count, seq_lengths=(6 * 16, 7 * 16), block_size=(16, 16))
    back, back_count = lists.from_block_mask(mask, batch=2, num_heads=3)
    assert torch.equal(lists.to_map(back, back_count, 7), block_map)


def test_absolute_lists_are_put_in_order_and_their_tails_ignored():
    index = torch.tensor([5, 0, 3, 99, -7]).reshape(1, 1, 1, 5)
    lut, count = lists.from_absolute(index, torch.tensor([3]).reshape(1, 1, 1))
    assert lut.flatten().tolist() == [0, 3, 5, -1, -1] and count.item() == 3


def test_deltas_may_be_negative():
    delta = torch.tensor([4, -3, 5, 77]).reshape(1, 1, 1, 4).int()
    assert lists.from_delta(delta, torch.tensor([[[3]]]).int())[0].flatten().tolist() == [1, 4, 6, -1]


def test_empty_selections():
    lut, count = lists.from_map(torch.zeros(1, 2, 0, 3).bool())
    assert lut.shape == (1, 2, 0, 1) and count.shape == (1, 2, 0)
    assert lists.to_delta(lut, count)[0].shape == lut.shape and lists.to_map(lut, count, 3).shape == (1, 2, 0, 3)


def one_row(*entries, dtype=torch.int64):
    return torch.tensor(entries, dtype=dtype).reshape(1, 1, 1, -1), torch.full((1, 1, 1), len(entries))


@pytest.mark.parametrize("convert, entries", [
    (lists.from_absolute, one_row(2**32)), (lists.from_absolute, one_row(-2**32)), (lists.from_delta, one_row(2**32)),
    (lists.from_delta, one_row(1, 2**31 - 1, 2**31 - 1, 3)), (lists.from_delta, one_row(2**31 - 1, 1, dtype=torch.int32)),
    (lists.to_delta, one_row(2**32)), (lambda *pair: lists.to_map(*pair, 4), one_row(2**32 + 1))])
def test_an_index_beyond_int32_does_not_wrap_into_range(convert, entries):
    with pytest.raises(ValueError, match="lut: expected indices of tiles, got one beyond int32"):
        convert(*entries)


def test_what_lies_behind_the_count_may_be_anything():
    index = torch.tensor([3, 2**40, -2**40]).reshape(1, 1, 1, 3)
    assert lists.from_absolute(index, torch.ones(1, 1, 1, dtype=torch.int64))[0].flatten().tolist() == [3, -1, -1]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_with_the_mask_is_the_same_attention(make, close, block_map):
    from torch.nn.attention.flex_attention import flex_attention

    block_map[0, 0, 0, 3] = True  # FlexAttention leaves rows without keys undefined
    block_map |= (block_map.sum(-1, keepdim=True) == 0)
    lut, count = lists.from_map(block_map)
    query, key, value = make(2, 96, 3, 16), make(2, 112, 3, 16), make(2, 112, 3, 16)
    out = vsa_torch.block_sparse_attention(query, key, value, lut, count, tile_shape=(1, 1, 16),
                                           grid=(1, 1, 96), kv_grid=(1, 1, 112))
    mask = lists.to_block_mask(lut, count, seq_lengths=(96, 112), block_size=(16, 16))
    assert torch.equal(mask.to_dense() != 0, block_map)
    # FlexAttention without compilation looks at mask_mod alone, so the blocks are said by one, too.
    kept = block_map.repeat_interleave(16, 2).repeat_interleave(16, 3)
    mask.mask_mod = lambda b, h, q, k: kept[b, h, q, k]
    want = flex_attention(*(t.double().transpose(1, 2) for t in (query, key, value)), block_mask=mask)
    close(out, want.transpose(1, 2))


def test_blocks_cut_within_are_refused():
    from torch.nn.attention.flex_attention import create_block_mask

    causal = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 64, 64, device="cpu", BLOCK_SIZE=16)
    with pytest.raises(ValueError, match="whole blocks"):
        lists.from_block_mask(causal)
    halves = create_block_mask(lambda b, h, q, k: (q < 32) == (k < 32), 1, 1, 64, 64, device="cpu", BLOCK_SIZE=16)
    lut, count = lists.from_block_mask(halves, batch=2, num_heads=2)
    assert lut.shape == (2, 2, 4, 2) and lut[1, 1].tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]


@pytest.mark.parametrize("call, message", [
    (lambda: lists.from_map(torch.ones(2, 2, 2)[..., 0].bool()), "block_map: expected .B,H,Nq,Nk."),
    (lambda: lists.from_map(torch.ones(1, 1, 2, 2)), "block_map: expected bool"),
    (lambda: lists.from_map(torch.ones(1, 1, 2, 2).bool(), pitch=1), "pitch: expected at least 2"),
    (lambda: lists.from_onehot(torch.full((1, 1, 2, 2), 2).byte()), "onehot: expected 0 and 1"),
    (lambda: lists.to_map(torch.tensor([[[[0, 4]]]]), torch.tensor([[[2]]]), 4), "lut: expected indices 0 to 3"),
    (lambda: lists.from_delta(torch.zeros(1, 1, 1, 2).int(), torch.tensor([[[3]]])), "lut_count: expected 0 to 2"),
    (lambda: lists.from_delta(torch.zeros(1, 1, 1, 2), torch.tensor([[[1]]])), "lut: expected int32"),
    (lambda: lists.from_absolute(torch.zeros(1, 1, 2, 2).int(), torch.tensor([[[1]]])), "lut_count: expected the extents"),
    (lambda: lists.to_block_mask(*one_row(0), seq_lengths=(128, 128), block_size=128), "block_size: expected two ints"),
    (lambda: lists.to_block_mask(*one_row(0), seq_lengths=(512, 128), block_size=(128, 128)), "lut: expected 4 query"),
    (lambda: lists.to_delta(torch.tensor([[[[0, 1]]]]), torch.tensor([[[2]]]), pitch=1), "pitch: expected at least 2"),
])
def test_wrong_lists_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("convert", [lists.from_map, lists.from_onehot, lambda x: lists.from_delta(x, x),
                                     lambda x: lists.from_absolute(x, x)])
def test_lists_that_are_no_tensors_are_named(convert):
    with pytest.raises(TypeError, match="expected a tensor, got list"):
        convert([[True]])
