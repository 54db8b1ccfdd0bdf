"""What tools/mutate.py breaks, and which test must notice.

Each mutation replaces `old`, which must be in the file exactly once, by `new`. Those of a backend are
noticed by comparing it with the specification; those of the specification by a property.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    binary: str  # in tests/ of the build folder
    test: str    # GoogleTest filter


def parity(name, file, old, new, test):
    return Mutation(f"cpu {name}", file, old, new, "parity_tests", f"Each/{test}/*_cpu")


def specification(name, file, old, new, test, binary="property_tests"):
    return Mutation(f"reference {name}", file, old, new, binary, test)


def gradient(name, file, old, new, stage):
    return specification(name, file, old, new, f"Reference{stage}.GradientsMatchDifferences",
                         "unit_tests")


def cuda(name, file, old, new, test):
    """Only built where there is a CUDA toolkit."""
    return Mutation(f"cuda {name}", f"src/cuda/{file}", old, new, "cuda_tests", test)


def runtime(name, file, old, new, test):
    return Mutation(f"runtime {name}", f"runtime/{file}", old, new, "model_tests", test)


MUTATIONS = [
    # --- tile, untile ---
    Mutation("plan: tiles at the far edges are not cut off", "src/core/tile_plan.cc",
             "w < std::min((tw + 1) * t.w, g.w); ++w", "w < (tw + 1) * t.w; ++w",
             "property_tests", "TilePlanProperty.IsABijectionOfTheGrid"),
    Mutation("plan: frames and rows swapped", "src/core/tile_plan.cc",
             "(f * grid.h + h) * grid.w + w", "(h * grid.f + f) * grid.w + w",
             "property_tests", "TilePlanProperty.NeighboursInATileAreNeighboursInTheGrid"),
    Mutation("plan: top-k rounds down", "src/core/topk.cc", "std::ceil(", "std::floor(",
             "unit_tests", "TopkRule.T05_DoubleRounding"),
    specification("tile: off by one token", "src/reference/tile.cc",
                  "slot++, load_row(args.x, b, h, token));",
                  "slot++, load_row(args.x, b, h, token > 0 ? token - 1 : 0));",
                  "Each/Tiles.UntileOfTileIsTheIdentity/reference*"),
    parity("tile: off by one tile", "src/cpu/tile/tile.cc",
           "    for (const int32_t token : plan.tokens(t)) {\n"
           "      std::memcpy(row_of(args.tiled",
           "    for (const int32_t token : plan.tokens(t > 0 ? t - 1 : 0)) {\n"
           "      std::memcpy(row_of(args.tiled",
           "TileParity.BothWays"),
    parity("tile: first padding slot not zeroed", "src/cpu/tile/tile.cc",
           "    for (; slot < (t + 1) * plan.tile_tokens(); ++slot) {",
           "    for (++slot; slot < (t + 1) * plan.tile_tokens(); ++slot) {",
           "TileParity.BothWays"),
    # --- pool ---
    specification("pool: mean divides by tile_tokens", "src/reference/pool.cc",
                  "m /= plan.tile_len(t);", "m /= static_cast<double>(plan.tile_tokens());",
                  "Each/Tiles.T18_MeansDivideByTheValidCount/reference*"),
    parity("pool: mean divides by tile_tokens", "src/cpu/pool/pool.cc",
           "mean_of_rows(rows, head_dim, plan.tile_len(t), head_dim,",
           "mean_of_rows(rows, head_dim, plan.tile_tokens(), head_dim,", "PoolParity.Forward"),
    parity("pool: gradient not divided", "src/cpu/pool/pool.cc", "return g / len;",
           "return g + 0.0F * len;", "PoolParity.Backward"),
    # --- norm_rope_pool ---
    specification("norm_rope_pool: eps dropped", "src/reference/norm_rope_pool.cc",
                  "std::sqrt(mean + static_cast<double>(args.eps))", "std::sqrt(mean)",
                  "ReferenceNormRopePool.EpsIsAddedToTheMeanSquare", "unit_tests"),
    specification("norm_rope_pool: turns the other way", "src/reference/norm_rope_pool.cc",
                  "a * cos[j] - b * sin[j]", "a * cos[j] + b * sin[j]",
                  "ReferenceNormRopePool.PairsOfNeighboursTurnByTheirAngle", "unit_tests"),
    specification("norm_rope_pool: a norm for each head", "src/reference/norm_rope_pool.cc",
                  "const bool per_head = args.norm == NormOver::kHead;",
                  "const bool per_head = args.norm != NormOver::kNothing;",
                  "ReferenceNormRopePool.NormOverAHeadOrOverAllOfThem", "unit_tests"),
    parity("norm_rope_pool: eps dropped", "src/cpu/norm_rope_pool/norm_rope_pool.cc",
           "std::sqrt(x / terms + args_.eps)", "std::sqrt(x / terms + 0.0F * args_.eps)",
           "NormRopePoolParity.EveryNorm"),
    parity("norm_rope_pool: turns the other way", "src/cpu/norm_rope_pool/norm_rope_kernel.cc",
           "a * cos[j] - b * sin[j]", "a * cos[j] + b * sin[j]", "NormRopePoolParity.EveryNorm"),
    parity("norm_rope_pool: pools before rounding", "src/cpu/norm_rope_pool/norm_rope_pool.cc",
           "    load(h);  // the mean", "    // the mean", "NormRopePoolParity.PooledIsPoolOfWhatWasStored"),
    # --- coarse ---
    specification("coarse: probabilities not rounded", "src/reference/coarse.cc",
                  "rounded(softmax(scores, *args.kv_plan), args.rounding)",
                  "softmax(scores, *args.kv_plan)",
                  "ReferenceCoarse.RoundedProbabilitiesNeedNotAddUp", "unit_tests"),
    specification("coarse: scores rounded once", "src/reference/coarse.cc",
                  "rounded(scale * rounded(dot(q, k[j]), rounding), rounding)",
                  "scale * rounded(dot(q, k[j]), rounding)",
                  "ReferenceCoarse.RoundsEveryStepToBf16IfAsked", "unit_tests"),
    gradient("coarse: scale dropped in the gradient of k", "src/reference/coarse.cc",
             "add_scaled(dk[j], *args.scale * ds, q);", "add_scaled(dk[j], ds, q);",
             "Coarse"),
    parity("coarse: scale dropped", "src/cpu/coarse/coarse_kernel.cc",
           "hn::Set(d, scale)), d, scores + j);", "hn::Set(d, 0.0F * scale + 1.0F)), d, scores + j);",
           "CoarseParity.Forward"),
    parity("coarse: k and v swapped", "src/cpu/coarse/coarse.cc",
           "load_rows(head_rows(args.v_pooled, b, h_kv)", "load_rows(head_rows(args.k_pooled, b, h_kv)",
           "CoarseParity.Forward"),
    parity("coarse: an empty tile competes", "src/cpu/coarse/coarse_kernel.cc",
           "if (kv.plan->tile_len(j) == 0) scores[j] = -kInf;",
           "if (kv.plan->tile_len(j) < 0) scores[j] = -kInf;", "CoarseParity.Forward"),
    # --- select ---
    specification("select: tie rule reversed", "src/reference/select.cc",
                  "return score(a) > score(b);",
                  "return score(a) > score(b) || (score(a) == score(b) && a > b);",
                  "Each/Select.T07_TiesKeepExactlyTopk/reference*"),
    parity("select: tie rule reversed", "src/cpu/select/select.cc",
           "(0xFFFFFFFFU - static_cast<uint32_t>(j));", "static_cast<uint32_t>(j);",
           "SelectParity.EveryTopk"),
    parity("select: worst tiles instead of best", "src/cpu/select/select.cc",
           "ranks.end(), std::greater<>());", "ranks.end(), std::less<>());",
           "SelectParity.EveryTopk"),
    Mutation("cpu select: NaN ranks first", "src/cpu/select/select.cc", "uint32_t order = 0;",
             "uint32_t order = ~0U;", "property_tests", "Each/Select.T08_InfiniteScores/cpu*"),
    parity("select: -0 below +0", "src/cpu/select/select.cc", "score == 0.0F ? 0.0F : score", "score",
           "SelectParity.EveryTopk"),
    parity("select: one tile too many", "src/cpu/select/select.cc",
           "static_cast<size_t>(options.topk) + options.forced_columns.size());",
           "static_cast<size_t>(options.topk) + 1 + options.forced_columns.size());",
           "SelectParity.EveryTopk"),
    # --- fine ---
    specification("fine: k and v swapped", "src/reference/fine.cc",
                  "const std::vector<Row> v = load_rows(args.v, b, h / group_size, keys);",
                  "const std::vector<Row> v = load_rows(args.k, b, h / group_size, keys);",
                  "Each/Fine.ConstantValuesComeBack/reference*"),
    specification("fine: heads of a group not shared", "src/reference/fine.cc",
                  "const std::vector<Row> k = load_rows(args.k, b, h / group_size, keys);",
                  "const std::vector<Row> k = load_rows(args.k, b, h % args.k.shape[1], keys);",
                  "Each/Attention.T25_SharedHeadsAreRepeatedHeads/reference*"),
    gradient("fine: delta dropped in the gradient", "src/reference/fine.cc",
             "const double ds = p * (dot(dout, v[j]) - dout_dot_out);",
             "const double ds = p * (dot(dout, v[j]) - 0.0 * dout_dot_out);",
             "Fine"),
    parity("fine: padding read", "src/cpu/fine/fine_kernel.cc", "if (cols != num_keys) MaskTail",
           "if (cols < num_keys) MaskTail", "FineParity.Forward"),
    parity("fine: off by one tile", "src/cpu/fine/fine_kernel.cc", "kv.v + j * kv.v_tile_stride",
           "kv.v + (j > 0 ? j - 1 : 0) * kv.v_tile_stride", "FineParity.Forward"),
    parity("fine: output not rescaled to the new maximum", "src/cpu/fine/fine_kernel.cc",
           "ScaleRow(row.out, out_cols, factor);", "ScaleRow(row.out, 0 * out_cols, factor);",
           "FineParity.Forward"),
    parity("fine: lse to base 2", "src/cpu/fine/fine_kernel.cc",
           "std::log2(total)) * std::numbers::ln2_v<float>;", "std::log2(total));",
           "FineParity.Forward"),
    parity("fine: k and v swapped", "src/cpu/fine/packed_heads.cc",
           "load_rows(tile_rows(v_, b, h, *plan_, tile)", "load_rows(tile_rows(k_, b, h, *plan_, tile)",
           "FineParity.Forward"),
    parity("fine: scale dropped in the gradient of q", "src/cpu/fine/fine_backward.cc",
           "store_gradient(dq, *args.scale,", "store_gradient(dq, 1.0F,", "FineParity.Backward"),
    parity("fine: delta dropped in the gradient", "src/cpu/fine/fine_backward_kernel.cc",
           "hn::Sub(hn::LoadU(d, ds + j), delta)", "hn::MulSub(hn::Zero(d), delta, hn::Neg(hn::LoadU(d, ds + j)))",
           "FineParity.Backward"),
    parity("fine: transposed table off by one", "src/cpu/fine/lut_t.cc", "= static_cast<int32_t>(i);",
           "= static_cast<int32_t>(i > 0 ? i - 1 : i);", "FineParity.Backward"),
    # --- combine ---
    gradient("combine: coarse gradient of one token only", "src/reference/combine.cc",
             "add_scaled(dcoarse_out, 1.0, product(gate_coarse, dout));",
             "dcoarse_out = product(gate_coarse, dout);", "Combine"),
    parity("combine: coarse gate ignored", "src/cpu/combine/combine_kernel.cc",
           "sum = hn::MulAdd(LoadGate<T>(d, tile.gate_coarse, i, j),\n"
           "                           hn::LoadU(d, tile.coarse_out + j), sum);",
           "sum = hn::Add(hn::LoadU(d, tile.coarse_out + j), sum);", "CombineParity.Forward"),
    parity("combine: the other tile's coarse output", "src/cpu/combine/combine.cc",
           ".ld = head_dim,\n                           .coarse_out = f32_row(args.coarse_out, b, h, t),",
           ".ld = head_dim,\n                           .coarse_out = f32_row(args.coarse_out, b, h, t > 0 ? t - 1 : 0),",
           "CombineParity.Forward"),
    parity("combine: gates swapped", "src/cpu/combine/combine_kernel.cc",
           "sum = hn::Mul(LoadGate<T>(d, tile.gate_fine, i, j),",
           "sum = hn::Mul(LoadGate<T>(d, tile.gate_coarse, i, j),", "CombineParity.Forward"),
    # --- the whole operator ---
    parity("operator: given means of keys ignored", "src/cpu/fine/packed_heads.cc",
           "    if (given.empty()) {", "    if (given.empty() || &given == &options_.k_pooled) {",
           "AttentionParity.WhatExistsAlreadyIsUsed"),
    parity("operator: gradient through the means dropped", "src/cpu/attention_backward.cc",
           "    extras.dq_pooled = coarse->dq.view();\n", "", "AttentionParity.Backward"),
    # --- backends by their traits ---
    Mutation("validation: reads a table in device memory", "src/core/arg_check_lut.cc",
             "if (traits_.memory == MemoryKind::kDevice) return {};",
             "if (traits_.memory == MemoryKind::kDevice && num_kv_tiles < 0) return {};",
             "device_backend_tests", "DeviceBackend.ServesEveryStage"),
    Mutation("validation: rows of tokens anywhere", "src/core/arg_check.cc",
             "if (t.shape[3] * size_bytes(t.dtype) < bytes) return {};",
             "if (t.shape[3] * size_bytes(t.dtype) > 0) return {};",
             "device_backend_tests", "DeviceBackend.IsValidatedByItsTraits"),
    # --- CUDA, what tests on the host hold it to ---
    cuda("rings: the phase after the last slot", "fine/sm90/fine_slots.h",
         "(after - kRing) ^ 1U", "(after - kRing)", "FineRings.AnyOrderOfEventsDeliversTheRightSlots"),
    cuda("rings: the last common slot in the other ring", "fine/sm90/fine_slots.h",
         "(left - num_exclusive) & 1", "(left - num_exclusive + 1) & 1",
         "FineRings.AnyOrderOfEventsDeliversTheRightSlots"),
    cuda("rings: at head_dim 64 the phase changes with every slot", "fine/sm90/fine_slots.h",
         "number / kStages % 2", "number % 2", "FineRings.AnyOrderOfEventsDeliversTheRightSlots"),
    cuda("units: the second half is left out", "fine/sm90/fine_params.h",
         "num_pair_items + 2 * (num_items - num_pair_items)", "num_pair_items + num_items - num_pair_items",
         "FineUnits.EveryHalfIsInOneUnit"),
    cuda("units: single halves begin one pair late", "fine/sm90/fine_params.h",
         "num_pair_items + (unit - num_pair_items) / 2", "num_pair_items + (unit - num_pair_items + 1) / 2",
         "FineUnits.EveryHalfIsInOneUnit"),
    cuda("units: more single halves than multiprocessors", "fine/sm90/fine_params.h",
         "2 * left <= num_sms", "left <= num_sms", "FineUnits.ItemsOfTheLastRoundAreSplit"),
    cuda("schedule: a step of more than 64 rows", "plan/schedule.h",
         "row + rows > kBlockTokens", "row + rows > kBlockTokens + 8", "StepPacker.NeverOverfillsAStepAndAlignsBlocks"),
    cuda("descriptor: no swizzle", "fine/sm90/descriptor.h",
         "(piece ^ (row % kSwizzleRows))", "piece", "Descriptor.*"),
    cuda("backward: a ring's phase never changes", "fine/sm90/fine_backward_params.h",
         "bits = parity() ^ 1U;", "bits = parity();", "RingSlot.*"),
    # --- the runtime: layers against double loops, models against PyTorch's tensors ---
    runtime("norm: mean not taken off", "nn/norm.cc",
            "const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));\n      const auto scale",
            "const auto centred = hn::LoadU(d, x + i);\n      const auto scale",
            "LayerNorm.EqualsDoubleLoopsWithALargeMean"),
    runtime("norm: eps dropped", "nn/norm.cc",
            "const auto value = hn::LoadU(d, x + i);\n      return hn::Mul(value, value);\n    });\n"
            "    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width) + args.eps);",
            "const auto value = hn::LoadU(d, x + i);\n      return hn::Mul(value, value);\n    });\n"
            "    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(width));",
            "RmsNorm.EpsIsAddedToTheMeanSquare"),
    runtime("norm: over q and k swapped", "dit/cpu/block.cc",
            "rms_norm(k, rows.size(), self_.norm_k, config_.eps);",
            "rms_norm(k, rows.size(), self_.norm_q, config_.eps);", "WanGolden.BlockAndVelocity*"),
    runtime("rope: axes swapped", "nn/rope.cc",
            "token / grid_.w % grid_.h,\n                                          token % grid_.w};",
            "token % grid_.w,\n                                          token / grid_.w % grid_.h};",
            "Rope.TurnsInterleavedPairsByPosition"),
    runtime("rope: turns the other way", "nn/rope.cc", "i % 2 == 0 ? -sin : sin", "i % 2 == 0 ? sin : -sin",
            "Rope.TurnsInterleavedPairsByPosition"),
    runtime("modulation: scale without 1", "dit/cpu/block.cc", ".scale2 = row(4, 1.0F)", ".scale2 = row(4, 0.0F)",
            "WanGolden.BlockAndVelocity*"),
    runtime("modulation: shifts swapped", "dit/cpu/block.cc", ".shift1 = row(0, 0.0F)", ".shift1 = row(3, 0.0F)",
            "WanGolden.BlockAndVelocity*"),
    runtime("modulation: the head's by the projected timestep", "dit/cpu/steps.cc", "shift[i] += time_[i];", "",
            "WanGolden.BlockAndVelocity*"),
    runtime("residual: gate of the other branch", "dit/cpu/block.cc", ".gate = modulation.gate1.data()",
            ".gate = modulation.gate2.data()", "WanGolden.BlockAndVelocity*"),
    runtime("residual: gate ignored", "nn/elementwise.cc", "const auto gate = hn::LoadU(d, args.gate + i);",
            "const auto gate = hn::Set(d, 1.0F);", "Elementwise.GatedResidualAddMultiplySilu"),
    runtime("gate of the coarse branch: dropped", "dit/cpu/block.cc",
            "gated_ ? Gate::tensor(input(act.gate)) : Gate::zero()", "Gate::zero()",
            "WanGolden.BlockAndVelocity*"),
    runtime("text: padding counts as one key", "dit/cpu/model.cc", "std::log(static_cast<float>(padding))", "0.0F",
            "WanGolden.BlockAndVelocity*"),
    runtime("text: bias dropped", "nn/text_attention.cc", "if (a.bias != nullptr) {", "if (a.bias == a.k) {",
            "Keys/TextAttention.EqualsDoubleLoops/*"),
    runtime("text encoder: position table of the other direction", "text/relative_bucket.cc", "relative > 0 ? half : 0",
            "relative < 0 ? half : 0", "WanGolden.R10_R11_TextEncoder"),
    runtime("text encoder: position table of another head", "text/cpu/umt5_steps.cc", "bucket * config_.num_heads + h",
            "bucket * config_.num_heads", "WanGolden.R10_R11_TextEncoder"),
    runtime("text encoder: the GELU on the other branch", "text/umt5_weights.cc", '"DenseReluDense.wi_0"',
            '"DenseReluDense.wi_1"', "WanGolden.R10_R11_TextEncoder"),
    runtime("patchify: rows and columns of a patch swapped", "nn/patch.cc",
            "(frame * height + h0 + h) * width + w0 + w", "(frame * height + h0 + w) * width + w0 + h",
            "Patch.ColumnsRunOverChannelFrameRowColumn"),
    runtime("unpatchify: the channel slowest", "nn/patch.cc", "((f * patch.h + h) * patch.w + w) * channels + c",
            "((c * patch.f + f) * patch.h + h) * patch.w + w", "Patch.OutputColumnsHaveTheChannelFastest"),
    runtime("timestep: sines first", "nn/timestep.cc",
            "out[j] = std::cos(phase);\n    out[half + j] = std::sin(phase);",
            "out[j] = std::sin(phase);\n    out[half + j] = std::cos(phase);", "Timestep.CosinesComeFirst"),
    runtime("weights: a 16-bit number off by its sign", "nn/convert.cc", "hn::ShiftLeft<16>(hn::PromoteTo(d32",
            "hn::ShiftLeft<17>(hn::PromoteTo(d32", "Convert.EveryPatternBecomesItsNumberAndGoesBack"),
    runtime("weights: scale ignored", "nn/linear.cc", "state_->num_kept(), state_->scale, widened",
            "state_->num_kept(), 1.0F, widened", "LinearLayers.AWeightIsTheStoredNumbersTimesTheScale"),
    runtime("guidance: towards the unconditional", "sampler/flow_euler.cc", "g * (v_cond[i] - v_uncond[i])",
            "g * (v_uncond[i] - v_cond[i])", "Guide.MovesAwayFromTheUnconditional"),
    runtime("sampler: shift applied twice", "sampler/flow_euler.cc", "sigmas.push_back(shift * u",
            "sigmas.push_back(shift * shift * u", "FlowSigmas.ShiftIsAppliedOnce"),
    runtime("sampler: a step back", "sampler/flow_euler.cc", "static_cast<float>(sigma_next - sigma)",
            "static_cast<float>(sigma - sigma_next)", "EulerStep.ReachesX0AlongTheStraightLine"),
    runtime("pass: a layer's failure goes on", "dit/transformer.cc", "VSA_TRY(steps.attend_text(layer, *args.text));\n  stats",
            "(void)steps.attend_text(layer, *args.text);\n  stats", "Forward.AStepsErrorComesBackUnchangedAndStopsThePass"),
]
