// The whole operator: the stages in order, with fp64 between them. Host-only.
//
// Tokens stay in the order of their plans, so tile and untile have nothing to do here.
#include <algorithm>
#include <vector>

#include "src/core/element.h"
#include "src/core/lut_row.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

/// A contiguous fp64 tensor [B, H, S, D] with memory of its own.
class Buffer {
 public:
  explicit Buffer(const Dims& dims)
      : data_(static_cast<size_t>(dims.batch * dims.num_heads * dims.seq_len * dims.head_dim)),
        view_(Tensor::bhsd(data_.data(), DType::kF64, dims)) {}
  Buffer(const Buffer&) = delete;  // view_ points into data_
  Buffer& operator=(const Buffer&) = delete;
  const Tensor& view() const { return view_; }

 private:
  std::vector<double> data_;
  Tensor view_;
};

/// Dims of a tensor like x with another number of rows and columns.
Dims like(const ConstTensor& x, int64_t seq_len, int64_t head_dim) {
  return {.batch = x.shape[0], .num_heads = x.shape[1], .seq_len = seq_len, .head_dim = head_dim};
}

/// Dims of the tile tensor that pooling x gives.
Dims pooled_dims(const ConstTensor& x, const TilePlan& plan) {
  return like(x, plan.num_tiles(), x.shape[3]);
}

/// to = a + b, rounded once. `b` may be empty.
void store_sum(const Tensor& to, const ConstTensor& a, const ConstTensor& b) {
  for (int64_t n = 0; n < to.shape[0]; ++n) {
    for (int64_t h = 0; h < to.shape[1]; ++h) {
      for (int64_t s = 0; s < to.shape[2]; ++s) {
        Row sum = load_row(a, n, h, s);
        if (!b.empty()) add_scaled(sum, 1.0, load_row(b, n, h, s));
        store_row(to, n, h, s, sum);
      }
    }
  }
}

void copy_lut(const ConstLut& from, const Lut& to) {
  const LutDims& dims = from.dims;
  const int64_t num_rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  for (int64_t row = 0; row < num_rows; ++row) {
    int32_t* index = to.index + row * to.dims.pitch;
    std::fill_n(index, to.dims.pitch, -1);
    std::copy_n(from.index + row * dims.pitch, from.count[row], index);
    to.count[row] = from.count[row];
  }
}

}  // namespace

Status attention_forward(const Context& context, const AttentionArgs& args) {
  const int64_t num_q_tiles = args.q_plan->num_tiles();
  const int64_t num_kv_tiles = args.kv_plan->num_tiles();
  // The means that were given, or else those of x in `means`.
  const auto pooled = [&](const ConstTensor& given, const ConstTensor& x, const TilePlan* plan,
                          const Buffer& means) -> ConstTensor {
    if (!given.empty()) return given;
    throw_if_error(reference::pool(context, {.x = x, .plan = plan, .pooled = means.view()}));
    return means.view();
  };
  const Buffer q_means(pooled_dims(args.q, *args.q_plan));
  const Buffer k_means(pooled_dims(args.k, *args.kv_plan));
  const Buffer v_means(pooled_dims(args.v, *args.kv_plan));
  const Buffer coarse_scores(like(args.q, num_q_tiles, num_kv_tiles));
  const Buffer coarse_out(pooled_dims(args.q, *args.q_plan));
  VSA_TRY(
      reference::coarse(context, {.q_pooled = pooled(args.q_pooled, args.q, args.q_plan, q_means),
                                  .k_pooled = pooled(args.k_pooled, args.k, args.kv_plan, k_means),
                                  .v_pooled = pooled(args.v_pooled, args.v, args.kv_plan, v_means),
                                  .kv_plan = args.kv_plan,
                                  .scale = args.scale,
                                  .rounding = args.rounding,
                                  .coarse_scores = coarse_scores.view(),
                                  .coarse_out = coarse_out.view()}));

  LutBuffer selected;
  ConstLut lut = args.lut;
  if (lut.empty()) {
    selected = LutBuffer({.batch = args.q.shape[0],
                          .num_heads = args.q.shape[1],
                          .num_q_tiles = num_q_tiles,
                          .pitch = num_kv_tiles});
    lut = selected.view();
    VSA_TRY(reference::select(
        context,
        {.coarse_scores = coarse_scores.view(), .options = args.select, .lut = selected.view()}));
  }
  if (!args.lut_out.empty()) copy_lut(lut, args.lut_out);

  const Buffer fine_out(like(args.q, args.q.shape[2], args.q.shape[3]));
  VSA_TRY(reference::fine(context, {.q = args.q,
                                    .k = args.k,
                                    .v = args.v,
                                    .q_plan = args.q_plan,
                                    .kv_plan = args.kv_plan,
                                    .lut = lut,
                                    .scale = args.scale,
                                    .out = fine_out.view(),
                                    .lse = args.lse}));
  if (!args.fine_out.empty()) store_sum(args.fine_out, fine_out.view(), {});

  return reference::combine(
      context,
      {.fine_out = fine_out.view(),
       .coarse_out = args.coarse_out.empty() ? ConstTensor(coarse_out.view()) : args.coarse_out,
       .gate_coarse = args.gate_coarse,
       .gate_fine = args.gate_fine,
       .q_plan = args.q_plan,
       .out = args.out});
}

// The stages again from last to first. The selection is a constant, so gradient reaches q and k
// by two ways, through the coarse softmax and through the fine stage, and the two add up; v too.
Status attention_backward(const Context& context, const AttentionBackwardArgs& args) {
  const Buffer q_pooled(pooled_dims(args.q, *args.q_plan));
  const Buffer k_pooled(pooled_dims(args.k, *args.kv_plan));
  const Buffer v_pooled(pooled_dims(args.v, *args.kv_plan));
  const Buffer coarse_out(pooled_dims(args.q, *args.q_plan));
  VSA_TRY(reference::pool(context, {.x = args.q, .plan = args.q_plan, .pooled = q_pooled.view()}));
  VSA_TRY(reference::pool(context, {.x = args.k, .plan = args.kv_plan, .pooled = k_pooled.view()}));
  VSA_TRY(reference::pool(context, {.x = args.v, .plan = args.kv_plan, .pooled = v_pooled.view()}));
  VSA_TRY(reference::coarse(context, {.q_pooled = q_pooled.view(),
                                      .k_pooled = k_pooled.view(),
                                      .v_pooled = v_pooled.view(),
                                      .kv_plan = args.kv_plan,
                                      .scale = args.scale,
                                      .coarse_scores = {},
                                      .coarse_out = coarse_out.view()}));

  const Buffer dfine_out(like(args.q, args.q.shape[2], args.q.shape[3]));
  const Buffer dcoarse_out(pooled_dims(args.q, *args.q_plan));
  VSA_TRY(reference::combine_backward(context, {.fine_out = args.fine_out,
                                                .coarse_out = coarse_out.view(),
                                                .gate_coarse = args.gate_coarse,
                                                .gate_fine = args.gate_fine,
                                                .q_plan = args.q_plan,
                                                .dout = args.dout,
                                                .dfine_out = dfine_out.view(),
                                                .dcoarse_out = dcoarse_out.view(),
                                                .dgate_coarse = args.dgate_coarse,
                                                .dgate_fine = args.dgate_fine}));

  const Buffer dq_fine(like(args.q, args.q.shape[2], args.q.shape[3]));
  const Buffer dk_fine(like(args.k, args.k.shape[2], args.k.shape[3]));
  const Buffer dv_fine(like(args.v, args.v.shape[2], args.v.shape[3]));
  VSA_TRY(reference::fine_backward(context, {.q = args.q,
                                             .k = args.k,
                                             .v = args.v,
                                             .q_plan = args.q_plan,
                                             .kv_plan = args.kv_plan,
                                             .lut = args.lut,
                                             .scale = args.scale,
                                             .out = args.fine_out,
                                             .lse = args.lse,
                                             .dout = dfine_out.view(),
                                             .dq = dq_fine.view(),
                                             .dk = dk_fine.view(),
                                             .dv = dv_fine.view()}));

  const Buffer dq_pooled(pooled_dims(args.q, *args.q_plan));
  const Buffer dk_pooled(pooled_dims(args.k, *args.kv_plan));
  const Buffer dv_pooled(pooled_dims(args.v, *args.kv_plan));
  VSA_TRY(reference::coarse_backward(context, {.q_pooled = q_pooled.view(),
                                               .k_pooled = k_pooled.view(),
                                               .v_pooled = v_pooled.view(),
                                               .kv_plan = args.kv_plan,
                                               .scale = args.scale,
                                               .dcoarse_out = dcoarse_out.view(),
                                               .dq_pooled = dq_pooled.view(),
                                               .dk_pooled = dk_pooled.view(),
                                               .dv_pooled = dv_pooled.view()}));

  // Adds what came back through the pooled tensor to what came back through `fine`.
  const auto finish = [&](const Buffer& through_fine, const Buffer& dpooled, const TilePlan* plan,
                          const Tensor& dx) -> Status {
    const Buffer through_coarse(like(dx, dx.shape[2], dx.shape[3]));
    VSA_TRY(reference::pool_backward(
        context, {.dpooled = dpooled.view(), .plan = plan, .dx = through_coarse.view()}));
    store_sum(dx, through_fine.view(), through_coarse.view());
    return {};
  };
  VSA_TRY(finish(dq_fine, dq_pooled, args.q_plan, args.dq));
  VSA_TRY(finish(dk_fine, dk_pooled, args.kv_plan, args.dk));
  return finish(dv_fine, dv_pooled, args.kv_plan, args.dv);
}

}  // namespace vsa::reference
