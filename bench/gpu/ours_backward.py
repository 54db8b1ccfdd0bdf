"""This library's backward: stages, the operator, and the operator forward and backward."""

import torch

import gradients
import problem
from contestant import Contestant, sequence, max_or_nan, run_and_wait
from vsa_c import ONE, SelectOptions, bhsd, bshd, gate, lut

BACKWARD, BOTH = 2.5, 3.5  # FLOP of a pass, in those of forward: five products instead of two


def contestants(library, case, sets):
    """Runs the operator once on every set, which gives the set its lists and what backward needs."""
    plan = sets[0].plan
    topk = library.topk(case.kept, plan.info.num_tiles)
    select = SelectOptions(topk=topk)

    def forward(s):
        return library.prepare(
            "attention_forward", q=bshd(s.q), k=bshd(s.k), v=bshd(s.v), gate_coarse=gate(s.gate), gate_fine=ONE,
            q_plan=plan.pointer, kv_plan=plan.pointer, out=bshd(s.out), select=select, lut_out=lut(s.lists),
            lse=bshd(s.lse), fine_out=bshd(s.fine_out))

    def attention_backward(s):
        return library.prepare(
            "attention_backward", q=bshd(s.q), k=bshd(s.k), v=bshd(s.v), gate_coarse=gate(s.gate), gate_fine=ONE,
            q_plan=plan.pointer, kv_plan=plan.pointer, lut=lut(s.lists), lse=bshd(s.lse),
            fine_out=bshd(s.fine_out), dout=bshd(s.dout), dq=bshd(s.dq), dk=bshd(s.dk), dv=bshd(s.dv),
            dgate_coarse=bshd(s.dgate))

    def fine_backward(s):
        return library.prepare(
            "fine_backward", q=bshd(s.q), k=bshd(s.k), v=bshd(s.v), q_plan=plan.pointer, kv_plan=plan.pointer,
            lut=lut(s.lists), out=bshd(s.fine_out), lse=bshd(s.lse), dout=bshd(s.dout), dq=bshd(s.dq),
            dk=bshd(s.dk), dv=bshd(s.dv))

    for s in sets:
        _add_room(s, topk)
        run_and_wait(forward(s), s.q.device)

    def error(what):
        return lambda i: max_or_nan(gradients.errors(
            sets[i], {"dq": sets[i].dq, "dk": sets[i].dk, "dv": sets[i].dv, "dgate": sets[i].dgate}, what))

    def outputs(i):
        return [sets[i].dq, sets[i].dk, sets[i].dv, sets[i].dgate]

    def entrant(what, calls, of, passes):
        return Contestant(what, calls, error(of), "sparse", sets, outputs=outputs, passes=passes)

    backward = [attention_backward(s) for s in sets]
    yield entrant("operator_backward", backward, "operator", BACKWARD)
    yield entrant("operator_training", [sequence(forward(s), call) for s, call in zip(sets, backward)], "operator", BOTH)
    yield entrant("fine_backward", [fine_backward(s) for s in sets], "fine", BACKWARD)
    yield from _small_stages(library, plan, sets)


def _add_room(s, topk):
    n, (_, tokens, heads, _), device = s.plan.info.num_tiles, s.q.shape, s.q.device
    s.lists = problem.Lists(heads, n, topk, device)
    s.lse = torch.zeros(1, tokens, heads, 1, device=device)
    s.fine_out, s.dq, s.dk, s.dv, s.dgate = (torch.empty_like(s.q) for _ in range(5))


def _small_stages(library, plan, sets):
    n, (_, _, heads, dim), device = plan.info.num_tiles, sets[0].q.shape, sets[0].q.device
    generator = torch.Generator(device).manual_seed(9)
    rooms = [{name: torch.randn(1, heads, n, dim, generator=generator, device=device)
              for name in ("q", "k", "v", "dout", "out", "dq", "dk", "dv", "sum")} for _ in sets]

    def pool_error(i):
        rows = plan.tokens[-1].to(device)
        return problem.relative(sets[i].dq[0, rows, 0], (rooms[i]["q"][0, 0, -1] / len(rows)).double().expand(
            len(rows), dim))

    def coarse_error(i):
        q, k, v, dout = (rooms[i][name][0, 0].double() for name in ("q", "k", "v", "dout"))
        weights, dscores = gradients.softmax_gradient(q, k, v, dout)
        return max_or_nan([problem.relative(rooms[i][name][0, 0], want) for name, want in (
            ("dq", dscores @ k), ("dk", dscores.T @ q), ("dv", weights.T @ dout))])

    def combine_error(i):
        s, rows = sets[i], plan.tokens[-1].to(device)
        dout, gated = (x[0, rows, 0].double() for x in (s.dout, s.gate))
        return max_or_nan([problem.relative(s.dq[0, rows, 0], dout),
                           problem.relative(s.dgate[0, rows, 0], rooms[i]["out"][0, 0, -1].double() * dout),
                           problem.relative(rooms[i]["sum"][0, 0, -1], (gated * dout).sum(0))])

    def room(*names):
        return lambda i: [rooms[i][name] for name in names]

    yield Contestant("pool_backward", [library.prepare(
        "pool_backward", dpooled=bhsd(r["q"]), plan=plan.pointer, dx=bshd(s.dq)) for s, r in zip(sets, rooms)],
        pool_error, None, sets, outputs=lambda i: [sets[i].dq])
    yield Contestant("coarse_backward", [library.prepare(
        "coarse_backward", q_pooled=bhsd(r["q"]), k_pooled=bhsd(r["k"]), v_pooled=bhsd(r["v"]), kv_plan=plan.pointer,
        dcoarse_out=bhsd(r["dout"]), dq_pooled=bhsd(r["dq"]), dk_pooled=bhsd(r["dk"]), dv_pooled=bhsd(r["dv"]))
        for r in rooms], coarse_error, None, sets, outputs=room("dq", "dk", "dv"))
    yield Contestant("combine_backward", [library.prepare(
        "combine_backward", fine_out=bshd(s.fine_out), coarse_out=bhsd(r["out"]), gate_coarse=gate(s.gate),
        gate_fine=ONE, q_plan=plan.pointer, dout=bshd(s.dout), dfine_out=bshd(s.dq), dcoarse_out=bhsd(r["sum"]),
        dgate_coarse=bshd(s.dgate)) for s, r in zip(sets, rooms)], combine_error, None, sets,
        outputs=lambda i: [sets[i].dq, sets[i].dgate, rooms[i]["sum"]])
