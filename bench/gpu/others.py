"""What the library is compared with: dense attention, FlexAttention, FastVideo's operator, a matrix product.

Each factory takes (case, sets) and returns a contestant; it raises ImportError where its package is absent.
Sparse ones get q, k and v in tile order [1, H, N * T, D] before the clock runs.
"""

import functools

import torch
from torch.nn.functional import scaled_dot_product_attention

import problem
from contestant import Contestant, max_or_nan

GEMM_SIZE = 8192


def _results(sets, run, what, pairs, to_raster, name, limit=0.01, over_tiles=max_or_nan, lists_of=lambda s: s.lists):
    """A contestant that returns its output: run(i) -> tensor, to_raster(i, tensor) -> [1, S, H, D]."""
    last = [None] * len(sets)

    def call_of(i):
        def call():
            last[i] = run(i)
        return call

    def error(i):
        return over_tiles(problem.tile_errors(sets[i], to_raster(i, last[i]), what, lists_of(sets[i])))

    return Contestant(name, [call_of(i) for i in range(len(sets))], error, pairs, sets, limit)


def dense_cudnn(case, sets):
    """PyTorch's scaled_dot_product_attention with nothing but the cuDNN backend allowed; on a CPU its math."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = SDPBackend.CUDNN_ATTENTION if sets[0].q.is_cuda else SDPBackend.MATH
    inputs = [[x.transpose(1, 2).contiguous() for x in (s.q, s.k, s.v)] for s in sets]

    def run(i):
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(*inputs[i])

    return _results(sets, run, "dense", "dense", lambda i, out: out.transpose(1, 2), "dense_cudnn")


def flash3_function():
    """flash_attn_func of FlashAttention-3: of its own package, or of the wheel fa3-fwd, which has the forward pass
    alone."""
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        from fa3_fwd_interface import flash_attn_func
    return flash_attn_func


def dense_flash3(case, sets):
    flash_attn_func = flash3_function()

    def run(i):
        out = flash_attn_func(sets[i].q, sets[i].k, sets[i].v)
        return out[0] if isinstance(out, tuple) else out

    return _results(sets, run, "dense", "dense", lambda i, out: out, "dense_flash3")


@functools.cache
def compiled_flex(tile_tokens):
    """FlexAttention, compiled. Its untuned kernels are for blocks of 128; smaller ones it has to search for."""
    from torch.nn.attention.flex_attention import flex_attention
    mode = "max-autotune-no-cudagraphs" if tile_tokens % 128 else None
    return torch.compile(flex_attention, dynamic=False, mode=mode)


def flex(case, sets):
    """FlexAttention, compiled, with a block mask from the same table; full tiles pay for no mask."""
    attention = compiled_flex(sets[0].plan.info.tile_tokens)
    masks = [flex_mask(s) for s in sets]
    inputs = [[s.in_tile_order(x) for x in (s.q, s.k, s.v)] for s in sets]
    return _results(sets, lambda i: attention(*inputs[i], block_mask=masks[i]), "fine", "sparse",
                    lambda i, out: sets[i].in_raster_order(out), "flex_attention")


def flex_mask(inputs):
    """The table as a BlockMask: kept tiles that are full, and kept ones with padding behind a mask."""
    from torch.nn.attention.flex_attention import BlockMask
    plan, given, device = inputs.plan, inputs.lists, inputs.q.device
    n, tokens = plan.info.num_tiles, plan.info.tile_tokens
    lens = plan.tile_len.to(device)
    kept = torch.zeros(*given.count.shape, n + 1, dtype=torch.bool, device=device)
    within = torch.arange(given.index.shape[-1], device=device) < given.count[..., None]
    kept.scatter_(-1, torch.where(within, given.index, n).long(), True)
    kept = kept[..., :n]

    def lists(chosen):
        return chosen.sum(-1).int(), torch.argsort(~chosen, dim=-1, stable=True).int()

    full_count, full_index = lists(kept & (lens == tokens))
    count, index = lists(kept & (lens < tokens))

    def valid(b, h, q, kv):
        return kv % tokens < lens[kv // tokens]

    return BlockMask.from_kv_blocks(count, index, full_count, full_index, BLOCK_SIZE=tokens, mask_mod=valid)


def fastvideo(case, sets):
    """FastVideo's whole operator from tile order. It selects by scores rounded to bf16 and is held to the lists that
    such scores give; as it may break a tie another way in a few rows, to the median over sampled tiles."""
    from fastvideo_kernel import video_sparse_attn
    plan = sets[0].plan
    topk = sets[0].lists.index.shape[-1]
    lens = plan.tile_len.to(sets[0].q.device)
    inputs = [[s.in_tile_order(x) for x in (s.q, s.k, s.v, s.gate)] for s in sets]

    def run(i):
        q, k, v, gate = inputs[i]
        return video_sparse_attn(q, k, v, variable_block_sizes=lens, q_variable_block_sizes=lens, topk=topk,
                                 block_size=case.tile, compress_attn_weight=gate)

    return _results(sets, run, "operator", "sparse", lambda i, out: sets[i].in_raster_order(out), "fastvideo",
                    limit=0.02, over_tiles=lambda errors: float(torch.tensor(errors).median()),
                    lists_of=lambda s: s.rounded_lists)


def gemm(case, sets):
    """A square bf16 product: the rate that tensor time is counted at, under the same clocks."""
    size = GEMM_SIZE if sets[0].q.is_cuda else 64
    a, b = (torch.randn(size, size, device=sets[0].q.device, dtype=sets[0].q.dtype) for _ in range(2))
    c = torch.empty_like(a)

    def error(i):
        return problem.relative(c[:64], a[:64].double() @ b.double())

    contestant = Contestant("gemm", [lambda: torch.mm(a, b, out=c)] * len(sets), error, None, sets)
    contestant.flops = 2.0 * size ** 3
    return contestant


FACTORIES = {"gemm": gemm, "dense_cudnn": dense_cudnn, "dense_flash3": dense_flash3, "flex_attention": flex,
             "fastvideo": fastvideo}
