"""Cases of the bench, their inputs, and fp64 attention on sampled tiles to hold every contestant to."""

import math
from dataclasses import dataclass

import torch

CUBE = (4, 4, 4)


@dataclass(frozen=True)
class Case:
    shape: str
    grid: tuple
    tile: tuple
    heads: int
    head_dim: int
    kept: float
    local: bool

    @property
    def name(self):
        return f"{self.shape}/kept{100 * self.kept:g}/{'local' if self.local else 'random'}"


def _cases(shapes):
    return [Case(*shape, kept, local) for shape in shapes for kept in (0.5, 0.3, 0.125, 0.05) for local in (False, True)]


CASES = _cases([
    ("s32768_h12_d128_t64", (8, 64, 64), CUBE, 12, 128),
    ("s32768_h12_d128_t128", (8, 64, 64), (2, 8, 8), 12, 128),
    ("s32768_h12_d64_t64", (8, 64, 64), CUBE, 12, 64),
    ("wan480_h12_d128_t64", (21, 30, 52), CUBE, 12, 128),
    ("wan720_h40_d128_t64", (21, 45, 80), CUBE, 40, 128),
])
TINY_CASES = _cases([("tiny_h2_d16_t8", (5, 6, 7), (2, 2, 2), 2, 16)])  # for a machine without a GPU


class Lists:
    """Of each query tile the kv tiles that it keeps: int32 index [1, H, N, topk] and count [1, H, N]."""

    def __init__(self, heads, num_tiles, topk, device):
        self.index = torch.zeros(1, heads, num_tiles, topk, dtype=torch.int32, device=device)
        self.count = torch.zeros(1, heads, num_tiles, dtype=torch.int32, device=device)

    def kept(self, head, tile):
        return self.index[0, head, tile, :int(self.count[0, head, tile])].tolist()


class Inputs:
    """q, k, v, gate and dout [1, S, H, D] in raster order, and room for out.

    For local lists a quadratic form in the tile's place is added to q . k, so that the operator itself
    selects near tiles, and every contestant that selects does so on the same grounds.
    """

    def __init__(self, case, plan, dtype, device, seed):
        generator = torch.Generator(device).manual_seed(seed)
        size = (1, plan.info.seq_len, case.heads, case.head_dim)

        def normal():
            return torch.randn(size, generator=generator, device=device, dtype=torch.float32)

        q, k = normal(), normal()
        if case.local:
            place = _tile_places(case, device) * math.sqrt(0.25 * math.sqrt(case.head_dim) / math.prod(case.tile))
            place = place - place.mean(0)
            q[..., :3] += (math.sqrt(2) * place)[:, None]
            k[..., :3] += (math.sqrt(2) * place)[:, None]
            q[..., 3] -= 1
            k[..., 3] += place.square().sum(-1)[:, None]
        self.q, self.k = q.to(dtype), k.to(dtype)
        self.v, self.gate, self.dout = (normal().to(dtype) for _ in range(3))
        self.out = torch.full_like(self.q, math.nan)
        self.plan = plan
        self.lists = self.rounded_lists = None  # what the operator selects, and by rounded scores; once it has run

    def in_tile_order(self, x):
        """[1, H, N * T, D] contiguous, padding 0."""
        slots = slots_of(self.plan).to(x.device)
        tiled = x[:, slots.clamp(min=0)] * (slots >= 0)[:, None, None]
        return tiled.transpose(1, 2).contiguous()

    def in_raster_order(self, tiled):
        """[1, S, H, D] from [1, H, N * T, D]."""
        slots = slots_of(self.plan).to(tiled.device)
        x = torch.empty_like(self.q)
        x[:, slots[slots >= 0]] = tiled.transpose(1, 2)[:, slots >= 0]
        return x


def slots_of(plan):
    """[N * T]: the token at each slot of the tile order, -1 at padding."""
    slots = torch.full((plan.info.num_tiles, plan.info.tile_tokens), -1, dtype=torch.int64)
    for i, tokens in enumerate(plan.tokens):
        slots[i, :len(tokens)] = tokens
    return slots.flatten()


def _tile_places(case, device):
    """[S, 3]: the place of each token's tile on the grid of tiles."""
    axes = [torch.arange(extent, device=device, dtype=torch.float32).div(edge).floor()
            for extent, edge in zip(case.grid, case.tile)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, 2)


def kept_pairs(inputs):
    """Pairs of valid tokens that the lists keep, over all heads; and keys that query tiles stream."""
    index, count = inputs.lists.index, inputs.lists.count
    lens = inputs.plan.tile_len.to(index.device, torch.float64)
    within = torch.arange(index.shape[-1], device=lens.device) < count[..., None]
    keys = (lens[index.clamp(0, len(lens) - 1).long()] * within).sum(-1)
    return float((keys * lens).sum()), float(keys.sum())


def shared_share(inputs):
    """Of the tiles that query tiles 2 i and 2 i + 1 keep, the share that both keep (first head)."""
    rows = [set(inputs.lists.kept(0, i)) for i in range(inputs.plan.info.num_tiles // 2 * 2)]
    both = sum(len(a & b) for a, b in zip(rows[::2], rows[1::2]))
    return both / max(1, sum(len(a) for a in rows[::2]))


# --- the reference -------------------------------------------------------------------------------


def tile_errors(inputs, out, what, lists=None, sampled=8):
    """|got - want|_2 / |want|_2 of sampled query tiles of out [1, S, H, D]; NaN where out has one.

    what: "dense"; "fine", over the tiles that `lists` (inputs.lists) keep; "operator": gate * coarse + fine.
    """
    lists = lists or inputs.lists
    num_tiles, num_heads = inputs.plan.info.num_tiles, inputs.q.shape[2]
    errors = []
    for n in range(sampled):
        tile, head = (num_tiles - 1) * n // (sampled - 1), n * 5 % num_heads
        rows = inputs.plan.tokens[tile].to(out.device)
        q, k, v = (x[0, :, head].double() for x in (inputs.q, inputs.k, inputs.v))
        if what == "dense":
            want = _attend(q[rows], k, v)
        else:
            tokens = torch.cat([inputs.plan.tokens[j] for j in lists.kept(head, tile)]).to(out.device)
            want = _attend(q[rows], k[tokens], v[tokens])
        if what == "operator":
            q_mean = q[rows].mean(0, keepdim=True)
            coarse = _attend(q_mean, tile_means(inputs.plan, k), tile_means(inputs.plan, v))
            want = want + inputs.gate[0, rows, head].double() * coarse
        errors.append(relative(out[0, rows, head], want))
    return errors


def tile_means(plan, x):
    """[N, D] fp64: means over the valid tokens of each tile of x [S, D]."""
    slots = slots_of(plan).to(x.device)
    valid = slots >= 0
    tile = torch.arange(len(slots), device=x.device) // plan.info.tile_tokens
    sums = torch.zeros(plan.info.num_tiles, x.shape[-1], dtype=torch.float64, device=x.device)
    sums.index_add_(0, tile[valid], x[slots[valid]].double())
    return sums / plan.tile_len.to(x.device)[:, None]


def _attend(q, k, v):
    return torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), -1) @ v


def relative(got, want):
    """|got - want|_2 / |want|_2. Where 0 is wanted: 0 if that came, else infinite; NaN if got has one."""
    error = (got.double() - want).norm()
    return 0.0 if error == 0 else float(error / want.norm())


def selection_error(scores, index, count, topk):
    """The share of rows whose table is not the top-k of their scores (ties to the lower index)."""
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :topk]
    want = order.sort(-1).values.int()
    wrong = (index[..., :topk] != want).any(-1) | (count != topk)
    return float(wrong.double().mean())
