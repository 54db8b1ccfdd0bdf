"""This library's contestants: stages, the operator with its own selection and with a given list."""

import torch

import problem
from vsa_c import ONE, ROUNDING_BF16, SelectOptions, bhsd, bshd, gate, lut


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
    yield from _small_stages(library, plan, sets, select)


def _small_stages(library, plan, sets, select):
    n, (_, _, heads, dim), device = plan.info.num_tiles, sets[0].q.shape, sets[0].q.device

    def room(*shape):
        return torch.zeros(shape, dtype=torch.float32, device=device)

    rooms = [{"q": room(1, heads, n, dim), "k": room(1, heads, n, dim), "v": room(1, heads, n, dim),
              "scores": room(1, heads, n, n), "out": room(1, heads, n, dim),
              "lists": problem.Lists(heads, n, select.topk, device)} for _ in sets]

    def pools(s, r):
        return [library.prepare("pool", x=bshd(x), plan=plan.pointer, pooled=bhsd(r[name]))
                for name, x in (("q", s.q), ("k", s.k), ("v", s.v))]

    def all_of(calls):
        def call():
            for one in calls:
                one()
        call.workspace = torch.cat([one.workspace for one in calls])
        return call

    def pool_error(i):
        return max_or_nan([problem.relative(rooms[i][name][0, 0], problem.tile_means(plan, x[0, :, 0]))
                           for name, x in (("q", sets[i].q), ("k", sets[i].k), ("v", sets[i].v))])

    def coarse_error(i):
        q, k, v = (rooms[i][name][0, 0].double() for name in "qkv")
        scores = q @ k.T / dim ** 0.5
        return max_or_nan([problem.relative(rooms[i]["scores"][0, 0], scores),
                           problem.relative(rooms[i]["out"][0, 0], torch.softmax(scores, -1) @ v)])

    def select_error(i):
        lists = rooms[i]["lists"]
        return problem.selection_error(rooms[i]["scores"][0, 0], lists.index[0, 0], lists.count[0, 0], select.topk)

    yield Contestant("pool_qkv", [all_of(pools(s, r)) for s, r in zip(sets, rooms)], pool_error, None, sets)
    yield Contestant("coarse", [library.prepare(
        "coarse", q_pooled=bhsd(r["q"]), k_pooled=bhsd(r["k"]), v_pooled=bhsd(r["v"]), kv_plan=plan.pointer,
        coarse_scores=bhsd(r["scores"]), coarse_out=bhsd(r["out"])) for r in rooms], coarse_error, None, sets)
    yield Contestant("select", [library.prepare(
        "select", coarse_scores=bhsd(r["scores"]), options=select, lut=lut(r["lists"])) for r in rooms],
        select_error, None, sets)


def max_or_nan(errors):
    return float(torch.tensor(errors, dtype=torch.float64).max())  # torch's max keeps NaN


def run_and_wait(call, device):
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()


class Contestant:
    """calls[i] enqueues the work on set i; error(i) is that of what it left, at most `limit`.

    pairs: "sparse" or "dense", what its floating-point operations are counted from; None: not counted.
    passes: how many times those of forward they are. outputs(i): what it writes; by default the set's out.
    """

    def __init__(self, what, calls, error, pairs, sets, limit=0.01, outputs=None, passes=1.0):
        self.what, self.calls, self.error, self.pairs, self.limit = what, calls, error, pairs, limit
        self.passes = passes
        self._sets, self._outputs = sets, outputs or (lambda i: [sets[i].out])

    def checked(self):
        """The largest error over all sets; outputs are poisoned first."""
        errors = []
        for i, call in enumerate(self.calls):
            for output in self._outputs(i):
                output.fill_(float("nan"))
            run_and_wait(call, self._sets[i].q.device)
            errors.append(self.error(i))
        return max_or_nan(errors)

    @property
    def workspace_mb(self):
        workspace = getattr(self.calls[0], "workspace", None)
        return None if workspace is None else workspace.numel() * 1e-6
