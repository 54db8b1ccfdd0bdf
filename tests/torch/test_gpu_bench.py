"""bench/gpu on a machine without a GPU: its arithmetic and its checks."""

import math
import os
import sys
import types
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))

import contestant  # noqa: E402
import contestants  # noqa: E402
import others  # noqa: E402
import others_backward  # noqa: E402
import ours  # noqa: E402
import ours_backward  # noqa: E402
import ours_stages  # noqa: E402
import problem  # noqa: E402
import vsa_c  # noqa: E402

CPU = torch.device("cpu")
STAGES = ["pool_qkv", "coarse", "select", "combine", "tile", "untile", "norm_rope_pool"]


@pytest.fixture
def library():
    path = os.environ.get("VSA_LIBRARY")
    if not path:
        pytest.skip("VSA_LIBRARY does not name libvsa.so")
    return vsa_c.Library(path, "cpu", CPU)


def tiny(library, local=False):
    case = next(c for c in problem.TINY_CASES if c.local == local and c.kept == 0.3)
    plan = library.plan(case.grid, case.tile)
    sets = [problem.Inputs(case, plan, torch.float32, CPU, seed) for seed in (1, 2)]
    return case, sets, {c.what: c for c in ours.contestants(library, case, sets)}


@pytest.mark.parametrize("local", [False, True])
def test_every_contestant_of_this_library_is_right(library, local):
    _, _, found = tiny(library, local)
    assert list(found) == ["operator", "operator_list", "fine", *STAGES]
    for contestant in found.values():
        assert contestant.checked() < 1e-5, contestant.what


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_norm_rope_pool_is_right_and_noticed_when_wrong(backend):
    library = vsa_c.Library(os.environ.get("VSA_LIBRARY") or pytest.skip("VSA_LIBRARY does not name libvsa.so"),
                            backend, CPU)
    case = problem.TINY_CASES[0]
    s = problem.Inputs(case, library.plan(case.grid, case.tile), torch.float32, CPU, 1)
    stages = {c.what: c for c in ours_stages.contestants(library, s.plan, [s], vsa_c.SelectOptions(topk=2))}
    entrant = stages["norm_rope_pool"]
    assert entrant.checked() < 1e-5
    assert not entrant.checked() <= entrant.limit  # a second call turns what the first left once more


@pytest.mark.parametrize("local", [False, True])
def test_every_backward_contestant_is_right_and_a_wrong_one_is_noticed(library, local):
    case, sets, _ = tiny(library, local)
    found = {c.what: c for c in ours_backward.contestants(library, case, sets)}
    assert list(found) == ["operator_backward", "operator_training", "fine_backward", "pool_backward",
                           "coarse_backward", "combine_backward"]
    for contestant in found.values():
        assert contestant.checked() < 1e-5, contestant.what
        kept, contestant.calls[0] = contestant.calls[0], lambda: None
        assert not contestant.checked() <= contestant.limit, contestant.what  # NaN
        contestant.calls[0] = kept
    assert found["operator_backward"].checked() < 1e-5
    assert found["fine_backward"].error(0) > 0.01  # dq holds what came through the means, too
    dense = others_backward.FACTORIES["dense_cudnn_backward"](case, sets)
    assert dense.checked() < 1e-5


@pytest.mark.parametrize("case", problem.TINY_CASES, ids=lambda c: c.name)
def test_backward_is_right_and_noticed_when_wrong_in_every_case(library, case):
    plan = library.plan(case.grid, case.tile)
    s = problem.Inputs(case, plan, torch.float32, CPU, 1)
    fine = next(c for c in ours_backward.contestants(library, case, [s]) if c.what == "fine_backward")
    assert fine.checked() < 1e-5  # of few tiles kept, a sampled one may be kept by no query: its dk and dv are 0
    for gradient in (s.dq, s.dk, s.dv):
        right = gradient.clone()
        gradient[0, plan.tokens[0], 0, 0] += 1
        assert fine.error(0) > fine.limit
        gradient[0, plan.tokens[0], 0, 0] = float("nan")
        assert not fine.error(0) <= fine.limit
        gradient.copy_(right)


def test_relative_error_where_nothing_is_wanted():
    nothing = torch.zeros(4, dtype=torch.float64)
    assert problem.relative(nothing.float(), nothing) == 0
    assert problem.relative(torch.full([4], 1e-30), nothing) == float("inf")
    assert math.isnan(problem.relative(torch.full([4], float("nan")), nothing))
    assert problem.relative(torch.full([4], 1.5), torch.ones(4, dtype=torch.float64)) == 0.5


def test_dense_attention_agrees_with_the_reference(library):
    case, sets, _ = tiny(library)
    assert others.dense_cudnn(case, sets).checked() < 1e-5


def test_the_block_mask_is_the_table_and_full_tiles_need_no_mask(library):
    _, (s, _), _ = tiny(library)
    n = s.plan.info.num_tiles
    mask = others.flex_mask(s)
    kept = mask.to_dense().bool()
    assert [torch.nonzero(kept[0, 1, i])[:, 0].tolist() for i in range(n)] == [s.lists.kept(1, i) for i in range(n)]
    full = [sum(int(s.plan.tile_len[j]) == 8 for j in s.lists.kept(1, i)) for i in range(n)]
    assert mask.full_kv_num_blocks[0, 1].tolist() == full
    keys = torch.arange(s.plan.info.padded_len)
    assert torch.equal(mask.mask_mod(0, 0, 0, keys), problem.slots_of(s.plan) >= 0)


def operator_that_rounds_scores_to(dtype):
    """A stand-in for FastVideo's operator, in tile order, whose selection alone rounds."""
    def operator(q, k, v, variable_block_sizes, q_variable_block_sizes, topk, block_size, compress_attn_weight):
        lens, tokens = variable_block_sizes, math.prod(block_size)
        scale = q.shape[-1] ** -0.5
        means = [x.float().unflatten(2, (-1, tokens)).sum(3) / lens[:, None] for x in (q, k, v)]
        pooled_q, pooled_k = (x.to(dtype).float() for x in means[:2])
        scores = (scale * (pooled_q @ pooled_k.mT).to(dtype)).to(dtype)
        index = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :topk]
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, index, True)
        valid = (torch.arange(tokens) < lens[:, None]).flatten()
        mask = kept.repeat_interleave(tokens, 2).repeat_interleave(tokens, 3) & valid
        coarse = scaled_dot_product_attention(*means).repeat_interleave(tokens, 2)
        return scaled_dot_product_attention(q, k, v, attn_mask=mask) + compress_attn_weight * coarse
    return operator


def test_fastvideo_is_held_to_the_selection_by_rounded_scores(library, monkeypatch):
    case, sets, _ = tiny(library)
    for s in sets:
        s.q += 1
        s.k += 8  # scores far from 0 and near each other: rounded to bf16, many are the same
    list(ours.contestants(library, case, sets))
    same = [s.lists.kept(h, i) == s.rounded_lists.kept(h, i) for s in sets for h in range(2) for i in range(36)]
    assert sum(same) < len(same) / 2

    def error(dtype):
        package = types.SimpleNamespace(video_sparse_attn=operator_that_rounds_scores_to(dtype))
        monkeypatch.setitem(sys.modules, "fastvideo_kernel", package)
        contestant = others.fastvideo(case, sets)
        return contestant.checked() / contestant.limit

    assert error(torch.bfloat16) < 0.1
    assert error(torch.float32) > 1


def test_a_wrong_or_unwritten_output_is_noticed(library):
    _, sets, found = tiny(library)
    fine = found["fine"]
    assert fine.checked() < 1e-5
    assert found["operator"].error(0) > 0.1  # out holds the fine stage alone
    fine.calls[0] = lambda: None
    assert not fine.checked() <= fine.limit  # NaN
    sets[1].lists.count[...] = 1
    assert fine.error(1) > 0.1  # another list than that of the output


def test_selection_error_counts_rows_and_breaks_ties_low():
    scores = torch.tensor([[1.0, 3.0, 3.0, 3.0], [0.0, 1.0, 2.0, 3.0]])
    right = torch.tensor([[1, 2], [2, 3]], dtype=torch.int32)
    count = torch.tensor([2, 2], dtype=torch.int32)
    assert problem.selection_error(scores, right, count, 2) == 0
    assert problem.selection_error(scores, torch.tensor([[2, 3], [2, 3]], dtype=torch.int32), count, 2) == 0.5


def test_tile_order_and_back(library):
    _, (s, _), _ = tiny(library)
    tiled = s.in_tile_order(s.q)
    assert tiled.shape == (1, 2, s.plan.info.padded_len, 16)
    assert torch.equal(s.in_raster_order(tiled), s.q)


def test_pairs_are_counted_by_tokens(library):
    _, (s, _), _ = tiny(library)
    lens = s.plan.tile_len.tolist()
    want = sum(lens[i] * sum(lens[j] for j in s.lists.kept(h, i)) for h in range(2) for i in range(len(lens)))
    assert problem.kept_pairs(s)[0] == want


def test_near_tiles_are_selected_on_local_inputs(library):
    assert problem.shared_share(tiny(library, True)[1][0]) > problem.shared_share(tiny(library)[1][0])


def test_all_run_in_every_round_in_another_order(library):
    order = []

    class Recorder:
        def round(self, contestants_, i):
            order.append(("".join(c.what for c in contestants_), i))
            return [1.0] * len(contestants_)

    entrants = [contestant.Contestant(what, [None] * 2, None, None, None) for what in "abc"]
    times = contestants.time_interleaved(entrants, 2, 4, Recorder())
    assert {what: len(ms) for what, ms in times.items()} == {"a": 4, "b": 4, "c": 4}
    assert order[contestants.WARMUP:] == [("abc", 0), ("bca", 1), ("cab", 0), ("abc", 1)]
