"""This library's contestants: the operator with its own selection and with a given list, the fine stage and the others."""

import torch

import ours_stages
import problem
from contestant import Contestant, max_or_nan, run_and_wait
from vsa_c import ONE, ROUNDING_BF16, SelectOptions, bshd, gate, lut


def contestants(library, case, sets):
    """Runs the operator on every set, which gives the set its lists; then yields contestants."""
    plan = sets[0].plan
    n, heads, device = plan.info.num_tiles, case.heads, sets[0].q.device
    topk = library.topk(case.kept, n)
    select = SelectOptions(topk=topk)

    def attention(s, **more):
        return library.prepare(
            "attention_forward", q=bshd(s.q), k=bshd(s.k), v=bshd(s.v), gate_coarse=gate(s.gate), gate_fine=ONE,
            q_plan=plan.pointer, kv_plan=plan.pointer, out=bshd(s.out), **more)

    for s in sets:
        s.lists, s.rounded_lists = (problem.Lists(heads, n, topk, device) for _ in range(2))
        run_and_wait(attention(s, select=select, lut_out=lut(s.lists)), device)
        run_and_wait(attention(s, select=select, rounding=ROUNDING_BF16, lut_out=lut(s.rounded_lists)), device)

    def out_error(what):
        return lambda i: max_or_nan(problem.tile_errors(sets[i], sets[i].out, what))

    def fine(s):
        return library.prepare("fine", q=bshd(s.q), k=bshd(s.k), v=bshd(s.v), q_plan=plan.pointer,
                               kv_plan=plan.pointer, lut=lut(s.lists), out=bshd(s.out))

    yield Contestant("operator", [attention(s, select=select) for s in sets], out_error("operator"), "sparse", sets)
    yield Contestant("operator_list", [attention(s, lut=lut(s.lists)) for s in sets],
                     out_error("operator"), "sparse", sets)
    yield Contestant("fine", [fine(s) for s in sets], out_error("fine"), "sparse", sets)
    yield from ours_stages.contestants(library, plan, sets, select)
