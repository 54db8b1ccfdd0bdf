"""video_sparse_attention against the restatement: forward, gradients, what must hold for any input."""

import math

import pytest
import torch

import restatement
import vsa_torch

GRID = (5, 6, 7)  # partial tiles on all axes: 2 x 2 x 2 tiles, 210 tokens
TOKENS = math.prod(GRID)
CASES = {
    "plain": dict(topk=3),
    "all_tiles": dict(topk=8),
    "scale": dict(topk=2, scale=0.3125),
    "tile_shape": dict(topk=5, tile_shape=(2, 4, 8)),
    "prefix": dict(topk=2, prefix=(77, 0, 13)),
}


def f64(*tensors):
    return [None if t is None else t.double() for t in tensors]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_forward_is_the_restatement(make, close, name, dtype):
    case = CASES[name]
    seq_len = TOKENS + sum(case.get("prefix", ()))
    query = make(2, seq_len, 4, 16, dtype=dtype)
    key, value = (make(2, seq_len, 2, 16, dtype=dtype) for _ in range(2))
    gate = make(2, seq_len, 4, 16, dtype=dtype)
    out, lse = vsa_torch.video_sparse_attention(query, key, value, gate, grid=GRID, return_lse=True, **case)
    want, want_lse, _ = restatement.attention(*f64(query, key, value, gate), grid=GRID, **case)
    assert out.dtype == dtype and lse.shape == (2, 4, seq_len)
    close(out, want)
    close(lse, want_lse)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_restatement(make, close, name):
    case = CASES[name]
    seq_len = TOKENS + sum(case.get("prefix", ()))
    inputs = [make(1, seq_len, heads, 16, requires_grad=True) for heads in (4, 2, 2, 4, 4)]
    query, key, value, coarse, fine = inputs
    dout = make(1, seq_len, 4, 16)
    out = vsa_torch.video_sparse_attention(query, key, value, coarse, gate_fine=fine, grid=GRID, **case)
    grads = torch.autograd.grad(out, inputs, dout)
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    want = restatement.attention(*doubles[:4], gate_fine=doubles[4], grid=GRID, **case)[0]
    for grad, expected in zip(grads, torch.autograd.grad(want, doubles, dout.double())):
        close(grad, expected, roundings=16)


def test_gradcheck_in_double(make):
    inputs = [make(1, 18, 1, 8, dtype=torch.float64, requires_grad=True) for _ in range(4)]

    def operator(*tensors):
        return vsa_torch.video_sparse_attention(*tensors, grid=(2, 3, 3), tile_shape=(2, 2, 2), topk=2)

    assert torch.autograd.gradcheck(operator, inputs, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_tiles_without_gate_is_dense_attention(make, close, dtype):
    query, key, value = (make(2, TOKENS, 3, 32, dtype=dtype) for _ in range(3))
    out = vsa_torch.video_sparse_attention(query, key, value, grid=GRID, sparsity=0.0)
    bhsd = [t.double().transpose(1, 2) for t in (query, key, value)]
    close(out, torch.nn.functional.scaled_dot_product_attention(*bhsd).transpose(1, 2))


def test_T23_gates_none_zero_and_one_are_what_they_say(make):
    query, key, value = (make(1, TOKENS, 2, 16) for _ in range(3))

    def operator(gate):
        return vsa_torch.video_sparse_attention(query, key, value, gate, grid=GRID, topk=3)

    assert torch.equal(operator(None), operator(0.0))
    assert torch.equal(operator(0.0), operator(torch.zeros_like(query)))
    assert torch.equal(operator(1.0), operator(torch.ones_like(query)))
    assert not torch.equal(operator(0.0), operator(1.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_as_gates_weigh_the_branches(make, close, dtype):
    """In float32, whatever the dtype: 0.3 is no bfloat16. Their gradients pass to query, key and value."""
    inputs = [make(1, TOKENS, 2, 16, dtype=dtype, requires_grad=True) for _ in range(3)]
    dout = make(1, TOKENS, 2, 16, dtype=dtype)
    out = vsa_torch.video_sparse_attention(*inputs, 0.7, gate_fine=0.3, grid=GRID, topk=3)
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    gates = (torch.full(out.shape, weight, dtype=torch.float64) for weight in (0.7, 0.3))
    want = restatement.attention(*doubles, next(gates), gate_fine=next(gates), grid=GRID, topk=3)[0]
    close(out, want.detach(), roundings=1)
    for grad, expected in zip(torch.autograd.grad(out, inputs, dout), torch.autograd.grad(want, doubles, dout.double())):
        close(grad, expected, roundings=16)


def test_T19_T39_batch_items_and_views_do_not_matter(make):
    packed = make(2, TOKENS + 4, 3, 2, 16)
    query, key, value = (packed[:, 4:, i] for i in range(3))
    together = vsa_torch.video_sparse_attention(query, key, value, grid=GRID, topk=3)
    alone = [vsa_torch.video_sparse_attention(query[b:b + 1].contiguous(), key[b:b + 1].contiguous(),
                                              value[b:b + 1].contiguous(), grid=GRID, topk=3)
             for b in range(2)]
    assert torch.equal(together, torch.cat(alone))


def test_T13_the_same_bits_every_time(make):
    inputs = [make(1, TOKENS, 2, 16, dtype=torch.bfloat16, requires_grad=True) for _ in range(4)]
    results, before = [], torch.get_num_threads()
    for threads in (1, 2, before):
        torch.set_num_threads(threads)
        out = vsa_torch.video_sparse_attention(*inputs, grid=GRID, topk=3)
        results.append([out, *torch.autograd.grad(out.float().sum(), inputs)])
    for again in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], again))


def test_autocast_casts_as_for_dense_attention(make):
    query, key, value = make(1, TOKENS, 2, 16), make(1, TOKENS, 2, 16), make(1, TOKENS, 2, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = vsa_torch.video_sparse_attention(query, key.bfloat16(), value, grid=GRID, topk=3)
    assert mixed.dtype == torch.bfloat16
    assert torch.equal(mixed, vsa_torch.video_sparse_attention(
        query.bfloat16(), key.bfloat16(), value.bfloat16(), grid=GRID, topk=3))


def test_T42_what_is_kept_for_backward(make):
    """Beyond the inputs: the fine branch's output, lse and the list; nothing of S x S, no copy in tile order."""
    inputs = [make(1, TOKENS, 2, 16, requires_grad=True) for _ in range(4)]
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.setdefault(t.data_ptr(), t), lambda t: t):
        vsa_torch.video_sparse_attention(*inputs, grid=GRID, topk=3)
    own = {t.data_ptr() for t in inputs}
    assert own <= set(kept)
    others = [t for pointer, t in kept.items() if pointer not in own]
    tiles = 8
    assert sum(t.nbytes for t in others) == inputs[0].nbytes + 4 * 2 * (TOKENS + tiles * 3 + tiles)


def test_lse_has_no_gradient(make):
    inputs = [make(1, TOKENS, 1, 8, requires_grad=True) for _ in range(3)]
    _, lse = vsa_torch.video_sparse_attention(*inputs, grid=GRID, topk=3, return_lse=True)
    assert not lse.requires_grad


def test_second_derivatives_are_refused(make):
    inputs = [make(1, TOKENS, 1, 8, requires_grad=True) for _ in range(3)]
    out = vsa_torch.video_sparse_attention(*inputs, grid=GRID, topk=3)
    (dquery,) = torch.autograd.grad((out * out).sum(), inputs[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        dquery.sum().backward()
