"""Gradients by fp64 on sampled tiles, to hold the backward contestants to. Inputs also have `dout`."""

import math

import torch

import problem


def errors(inputs, gradients, what, sampled=3):
    """|got - want|_2 / |want|_2 of dq on sampled query tiles, of dk and dv on sampled kv tiles.

    gradients: {"dq", "dk", "dv"} and, of the operator, "dgate": [1, S, H, D] in raster order.
    what: "dense", "fine" (over the kept tiles) or "operator", as in problem.tile_errors.
    """
    num_tiles, num_heads = inputs.plan.info.num_tiles, inputs.q.shape[2]
    found = []
    for n in range(sampled):
        head = Head(inputs, n * 5 % num_heads, what)
        tile = (num_tiles - 1) * n // (sampled - 1)
        rows, want = inputs.plan.tokens[tile].to(inputs.q.device), head.of_query_tile(tile)
        want.update(head.of_kv_tile(tile))
        found += [problem.relative(gradients[name][0, rows, head.head], value) for name, value in want.items()]
    return found


class Head:
    """The gradients of one head."""

    def __init__(self, inputs, head, what):
        self.inputs, self.head, self.what = inputs, head, what
        self.q, self.k, self.v, self.gate, self.dout = (
            x[0, :, head].double() for x in (inputs.q, inputs.k, inputs.v, inputs.gate, inputs.dout))
        self.tokens = [t.to(self.q.device) for t in inputs.plan.tokens]
        self.kept = [range(len(self.tokens)) if what == "dense" else inputs.lists.kept(head, i)
                     for i in range(len(self.tokens))]
        if what == "operator":
            self._coarse()

    def of_query_tile(self, i):
        rows = self.tokens[i]
        keys = torch.cat([self.tokens[j] for j in self.kept[i]])
        _, dscores = softmax_gradient(self.q[rows], self.k[keys], self.v[keys], self.dout[rows])
        want = {"dq": dscores @ self.k[keys]}
        if self.what == "operator":
            want["dq"] = want["dq"] + self.dq_mean[i] / len(rows)
            want["dgate"] = self.coarse_out[i] * self.dout[rows]
        return want

    def of_kv_tile(self, j):
        rows = self.tokens[j]
        dk, dv = torch.zeros_like(self.k[rows]), torch.zeros_like(self.v[rows])
        for i, kept in enumerate(self.kept):
            if j not in kept:
                continue
            keys = torch.cat([self.tokens[n] for n in kept])
            begin = sum(len(self.tokens[n]) for n in kept if n < j)
            q, dout = self.q[self.tokens[i]], self.dout[self.tokens[i]]
            weights, dscores = softmax_gradient(q, self.k[keys], self.v[keys], dout)
            dk += dscores[:, begin:begin + len(rows)].T @ q
            dv += weights[:, begin:begin + len(rows)].T @ dout
        if self.what == "operator":
            dk, dv = dk + self.dk_mean[j] / len(rows), dv + self.dv_mean[j] / len(rows)
        return {"dk": dk, "dv": dv}

    def _coarse(self):
        q, k, v = (problem.tile_means(self.inputs.plan, x) for x in (self.q, self.k, self.v))
        gated = self.gate * self.dout
        dcoarse = problem.tile_means(self.inputs.plan, gated) * self.inputs.plan.tile_len.to(q.device)[:, None]
        weights, dscores = softmax_gradient(q, k, v, dcoarse)
        self.coarse_out = weights @ v
        self.dq_mean, self.dk_mean, self.dv_mean = dscores @ k, dscores.T @ q, weights.T @ dcoarse


def softmax_gradient(q, k, v, dout):
    """The weights softmax(q k^T / sqrt(D)), and the gradient of q k^T given that of weights @ v."""
    scale = 1.0 / math.sqrt(q.shape[-1])
    weights = torch.softmax(q @ k.T * scale, -1)
    dweights = dout @ v.T
    return weights, scale * weights * (dweights - (weights * dweights).sum(-1, keepdim=True))
