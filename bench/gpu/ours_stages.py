"""This library's stages other than fine, each on its own."""

import torch

import problem
from contestant import Contestant, sequence, max_or_nan
from vsa_c import NORM_OVER_ALL_HEADS, ONE, bhsd, bshd, gate, lut

EPS = 1e-6


def contestants(library, plan, sets, select):
    """Yields them in an order in which each finds what it reads."""
    rooms = [_Room(s, plan, select.topk) for s in sets]
    n, (_, seq_len, heads, dim) = plan.info.num_tiles, sets[0].q.shape
    tokens = seq_len * heads * dim * sets[0].q.element_size()  # bytes of a token tensor
    pooled, scores = heads * n * dim * 4, heads * n * n * 4
    lists = heads * n * select.topk * 4

    def entrant(what, prepare, error, moved):
        return Contestant(what, [prepare(s, r) for s, r in zip(sets, rooms)],
                          lambda i: max_or_nan(error(sets[i], rooms[i])), None, sets, bytes=moved)

    def pool_all(s, r):
        return sequence(*(library.prepare("pool", x=bshd(x), plan=plan.pointer, pooled=bhsd(to))
                         for x, to in ((s.q, r.q), (s.k, r.k), (s.v, r.v))))

    def coarse(s, r):
        return library.prepare("coarse", q_pooled=bhsd(r.q), k_pooled=bhsd(r.k), v_pooled=bhsd(r.v),
                               kv_plan=plan.pointer, coarse_scores=bhsd(r.scores), coarse_out=bhsd(r.coarse_out))

    def choose(s, r):
        return library.prepare("select", coarse_scores=bhsd(r.scores), options=select, lut=lut(r.lists))

    def combine(s, r):
        return library.prepare("combine", fine_out=bshd(s.v), coarse_out=bhsd(r.coarse_out), gate_coarse=gate(s.gate),
                               gate_fine=ONE, q_plan=plan.pointer, out=bshd(r.raster))

    def tile(s, r):
        return library.prepare("tile", x=bshd(s.q), plan=plan.pointer, tiled=bhsd(r.tiled))

    def untile(s, r):
        return library.prepare("untile", tiled=bhsd(r.tiled), plan=plan.pointer, x=bshd(r.raster))

    def norm_rope_pool(s, r):
        return library.prepare("norm_rope_pool", x=bshd(r.normed), plan=plan.pointer, norm=NORM_OVER_ALL_HEADS, eps=EPS,
                               cos=bhsd(r.cos), sin=bhsd(r.sin), pooled=bhsd(r.q))

    yield entrant("pool_qkv", pool_all, _pool_errors, 3 * (tokens + pooled))
    yield entrant("coarse", coarse, _coarse_errors, 4 * pooled + 2 * scores)
    yield entrant("select", choose, lambda s, r: [problem.selection_error(
        r.scores[0, 0], r.lists.index[0, 0], r.lists.count[0, 0], select.topk)], scores + lists)
    yield entrant("combine", combine, _combine_errors, 3 * tokens + pooled)
    yield entrant("tile", tile, lambda s, r: [problem.relative(r.tiled, s.in_tile_order(s.q).double())], 2 * tokens)
    yield entrant("untile", untile, lambda s, r: [problem.relative(r.raster, s.q.double())], 2 * tokens)
    yield entrant("norm_rope_pool", norm_rope_pool, _norm_rope_pool_errors, 2 * tokens + pooled)


class _Room:
    """What the stages of a set write, and what norm_rope_pool changes in place."""

    def __init__(self, s, plan, topk):
        self.plan, n, device = plan, plan.info.num_tiles, s.q.device
        _, seq_len, heads, dim = s.q.shape

        def room(*shape):
            return torch.zeros(shape, dtype=torch.float32, device=device)

        self.q, self.k, self.v, self.coarse_out = (room(1, heads, n, dim) for _ in range(4))
        self.scores, self.lists = room(1, heads, n, n), problem.Lists(heads, n, topk, device)
        self.tiled = s.q.new_zeros(1, heads, n * plan.info.tile_tokens, dim)
        self.raster, self.normed = torch.zeros_like(s.q), s.q.clone()
        angles = torch.arange(seq_len, device=device)[:, None] * 0.5 ** torch.arange(dim // 2, device=device)
        self.cos, self.sin = (f(angles).float()[None, None].contiguous() for f in (torch.cos, torch.sin))


def _pool_errors(s, r):
    return [problem.relative(got[0, 0], problem.tile_means(r.plan, x[0, :, 0]))
            for got, x in ((r.q, s.q), (r.k, s.k), (r.v, s.v))]


def _coarse_errors(s, r):
    q, k, v = (x[0, 0].double() for x in (r.q, r.k, r.v))
    scores = q @ k.T / q.shape[-1] ** 0.5
    return [problem.relative(r.scores[0, 0], scores),
            problem.relative(r.coarse_out[0, 0], torch.softmax(scores, -1) @ v)]


def _combine_errors(s, r):
    errors = []
    for tile in (0, r.plan.info.num_tiles - 1):
        rows = r.plan.tokens[tile].to(s.v.device)
        want = s.v[0, rows].double() + s.gate[0, rows].double() * r.coarse_out[0, :, tile].double()
        errors.append(problem.relative(r.raster[0, rows], want))
    return errors


def _norm_rope_pool_errors(s, r):
    """Of the first head; right after the first call on x."""
    x = s.q[0].double()
    x = (x * torch.rsqrt(x.square().mean((1, 2), keepdim=True) + EPS))[:, 0]
    cos, sin = r.cos[0, 0].double(), r.sin[0, 0].double()
    even, odd = x[:, ::2], x[:, 1::2]
    want = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(1)
    return [problem.relative(r.normed[0, :, 0], want),
            problem.relative(r.q[0, 0], problem.tile_means(r.plan, r.normed[0, :, 0]))]
