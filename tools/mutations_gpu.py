"""What tools/mutate.py --gpu breaks in kernels that run on a card, and which test of gpu_tests must notice there.

A mutation is found by its text, wherever below src/cuda that is: `old` must be there exactly once. At least one for
each kernel.
"""

from pathlib import Path

from mutations import Mutation

CUDA = Path("src/cuda")


def file_with(old):
    """The source that has the text; the folder if none or several have, which check_mutations.py then reports."""
    root = Path(__file__).resolve().parent.parent
    found = [path for path in sorted((root / CUDA).rglob("*"))
             if path.suffix in (".cu", ".h", ".cuh", ".cc") and old in path.read_text()]
    return str(found[0].relative_to(root)) if len(found) == 1 else str(CUDA)


def card(name, old, new, test):
    return Mutation(name, file_with(old), old, new, "gpu_tests", test)


def stage(name, old, new, test):
    return card(name, old, new, f"*GpuStages.{test}/*")


def backward(name, old, new, test):
    return card(name, old, new, f"*GpuBackwardStages.{test}/*")


GPU_MUTATIONS = [
    stage("plan: the length of a tile is that of its last block", "len += block.len();", "len = block.len();", "Pool"),
    stage("tile, untile: the first token for all of a tile", "from + (kToTileOrder ? position : slot) * p.from.seq",
          "from + (kToTileOrder ? positions[0] : slot - row) * p.from.seq", "TileAndUntile"),
    stage("compact: tokens stay where they are", "from + p.tokens[token] * p.from.seq", "from + token * p.from.seq",
          "Fine"),
    stage("pool: the last token of a half is left out", "active ? len * (group + 1) / kGroups : 0",
          "active ? len * (group + 1) / kGroups - 1 : 0", "Pool"),
    card("norm_rope_pool: the second of a pair turns the other way", "x[2 * j + 1] = a * s[j] + b * c[j];",
         "x[2 * j + 1] = a * s[j] - b * c[j];", "*GpuNormRopePool.EveryNorm/*"),
    card("fine: the last key counts once", "if (i / 4 * 8 + i % 2 == last) s[i] += last_score;", "", "GpuLastKey.*"),
    card("residual_norm: the gate is dropped", "x[i][j] = fmaf(gate[j], y[i][j], x[i][j]);", "x[i][j] += y[i][j];",
         "*GpuResidualNorm.EveryDtypeAndWhateverIsLeftOut/*"),
    card("residual_norm: the last warp's sum is left out", "for (int warp = 1; warp < warps; ++warp) sum += partial[warp];",
         "for (int warp = 1; warp < warps - 1; ++warp) sum += partial[warp];",
         "*GpuResidualNorm.EveryDtypeAndWhateverIsLeftOut/*"),
    card("residual_norm: the norm is of x before rounding", "unpack8<T>(packed, x);", "",
         "*GpuResidualNorm.EveryDtypeAndWhateverIsLeftOut/*"),
    card("conv3d: columns are not padded", "padding{0, c.kernel_edge / 2, c.kernel_edge / 2}",
         "padding{0, c.kernel_edge / 2, 0}", "GpuConv3d.EveryKernelAndDtype"),
    card("pixel_norm: the bias is dropped", "v[i][j] += bias[i][j] + added[i][j];", "v[i][j] += added[i][j];",
         "GpuPixelNorm.EveryDtypeAndWhateverIsLeftOut"),
    card("pixel_norm: half of the lanes are not summed", "for (int mask = p.lanes / 2; mask > 0; mask /= 2) {",
         "for (int mask = p.lanes / 4; mask > 0; mask /= 2) {", "GpuPixelNorm.EveryDtypeAndWhateverIsLeftOut"),
    card("upsample: both parts are one frame", "const int part = channel / p.channels;", "const int part = 0;",
         "GpuUpsample.EveryDtype"),
    card("softmax: columns that do not count", "n < p.columns ? expf", "n <= p.columns ? expf", "GpuSoftmax.EveryDtype"),
    card("residual_norm: an RMS norm takes the mean off", "p.norm == NormKind::kRms ? 0.0F : mean_of_all", "mean_of_all", "*GpuResidualNorm.EveryDtypeAndWhateverIsLeftOut/*"),
    card("relative_attention: the bias of the neighbour", "bias[j - query + p.num_queries - 1]",
         "bias[max(j - query + p.num_queries - 2, 0)]", "*GpuRelativeAttention.EveryDtype/*"),
    card("relative_attention: earlier sums keep their maximum", "for (float& x : state.out) x *= factor;", "",
         "*GpuRelativeAttention.EveryDtype/*"),
    card("relative_attention: what follows the last key counts", "const float score = j < p.num_keys",
         "const float score = j < p.num_keys + 1", "*GpuRelativeAttention.EveryDtype/*"),
    stage("coarse scores: scale squared", "x[c] *= p.scale;", "x[c] *= p.scale * p.scale;", "Coarse"),
    stage("coarse scores: an empty tile competes", "column >= p.num_kv_tiles || p.kv_len[column] == 0",
          "column >= p.num_kv_tiles || p.kv_len[column] < 0", "Coarse"),
    card("coarse out: the second half of the tiles is left out", "for (int g = 1; g < kGroups; ++g) total +=",
         "for (int g = 1; g < kGroups - 1; ++g) total +=", "*GpuCoarseSizes.AsTheReference/*"),
    card("select: a row in registers keeps one tile too many", "if (count >= k) found = key;",
         "if (count > k) found = key;", "*GpuSelectSizes.DistinctScores/*"),
    card("select: a long row keeps one tile too many", "int of_equal = k;", "int of_equal = k + 1;",
         "*GpuSelectSizes.DistinctScores/*"),
    card("select: of equal scores one is left out", "(j > threshold.last ? 1 : 0)", "(j >= threshold.last ? 1 : 0)",
         "*GpuSelectSizes.TiesAndNan/*"),
    card("the caller's table: a row loses a tile", "if (threadIdx.x % 32 == 0) to.count[row] = count;",
         "if (threadIdx.x % 32 == 0) to.count[row] = count - 1;", "*GpuAttention.WithTheCallersTable/*"),
    stage("schedule: both halves take the first one's row", "const bool same = has_second && tiles[0] == tiles[1];",
          "const bool same = has_second && tiles[0] >= 0;", "Fine"),
    card("schedule of matched pairs: shared tiles are miscounted", "__popc(own & bits[", "__popc(own | bits[",
         "GpuSchedule.PairsBestFirst"),
    stage("schedule: common and exclusive tiles swapped", "contains(other, tile) != (which == Which::kAlsoIn)",
          "contains(other, tile) == (which == Which::kAlsoIn)", "Fine"),
    stage("fine at head_dim 128: padding is read", "mask_scores(scores, row_bits(slot), p_.last_key_score);",
          "mask_scores(scores, row_bits(slot) | uint64_t{1} << 63, p_.last_key_score);", "Fine"),
    stage("fine at head_dim 64: padding is read", "(has_partial, 0)) mask_scores(scores[0], row_bits(next), ",
          "(has_partial, 0)) mask_scores(scores[0], row_bits(now), ", "Fine"),
    card("fine: the sum is not rescaled to a new maximum", "sum[row] *= factor[row];", "sum[row] *= 1.0F;", "GpuMaxima.*"),
    stage("epilogue: lse has the maximum's sign wrong", "(softmax.max[r] * p.scale_log2 + log2_fast(sum))",
          "(log2_fast(sum) - softmax.max[r] * p.scale_log2)", "Fine"),
    card("epilogue: the neighbour's gate", "x[2 * j + 1] = fmaf(g.y, c[2 * j + 1], x[2 * j + 1]);",
         "x[2 * j + 1] = fmaf(g.x, c[2 * j + 1], x[2 * j + 1]);", "*GpuAttention.CombinedInTheFineKernel/*"),
    stage("combine: one column of the coarse output for all", "fmaf(gate[j], __ldg(coarse + column + j), x[j])",
          "fmaf(gate[j], __ldg(coarse + column), x[j])", "Combine"),
    card("lut_t: the first of 32 tiles is left out", "if (tile >= place.first_column && tile < end) kept |=",
         "if (tile > place.first_column && tile < end) kept |=", "GpuLutT.IsTheTranspose"),
    backward("statistics: lse in natural units", "minus_lse_log2 = -lse * kLog2E;", "minus_lse_log2 = -lse;", "Fine"),
    backward("dq: delta added", "dp[i] = p[i] * (dp[i] - delta_[i / 2 % 2]);",
             "dp[i] = p[i] * (dp[i] + delta_[i / 2 % 2]);", "Fine"),
    backward("dkv: the neighbour's delta", "(c % 2 == 0 ? delta.x : delta.y)", "(c % 2 == 1 ? delta.x : delta.y)",
             "Fine"),
    backward("coarse backward, rows: delta has the sign wrong", "sum == 0.0F ? 0.0F : 1.0F / sum, delta, 0.0F",
             "sum == 0.0F ? 0.0F : 1.0F / sum, -delta, 0.0F", "Coarse"),
    backward("coarse backward, scores: scale dropped", "f.scale * weight.x * (x.x - of_row.delta)",
             "weight.x * (x.x - of_row.delta)", "Coarse"),
    backward("coarse backward, products: q and the gradient of the output swapped", "x = is_dv ? p.dout : f.q;",
             "x = is_dv ? f.q : p.dout;", "Coarse"),
    backward("combine backward: an eighth of the tokens is left out",
             "for (int i = 0; i < kRowsAtOnce; ++i) total += sums[i][d];",
             "for (int i = 1; i < kRowsAtOnce; ++i) total += sums[i][d];", "Combine"),
    backward("pool backward: divided by one token more", "share.x[j] = __ldg(from + j) / static_cast<float>(len);",
             "share.x[j] = __ldg(from + j) / static_cast<float>(len + 1);", "Pool"),
]
