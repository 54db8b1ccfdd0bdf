// The fine stage's gradients: two walks over the table, one for dq and one for dk and dv.
// Host-only.
//
//   for a few kv heads at a time:  pack k^T, v^T and k                       (kv tiles in parallel)
//     for each query head of the group:
//       q, gated dout, lse, delta -> fp32                                 (query tiles in parallel)
//       walk 1: dq                                                        (query tiles in parallel)
//       walk 2, by the transposed table: dk, dv summed over the group        (kv tiles in parallel)
#include "src/cpu/fine_backward.h"

#include <algorithm>
#include <numbers>
#include <vector>

#include "src/core/lut_row.h"
#include "src/cpu/cpu.h"
#include "src/cpu/fine_backward_kernel.h"
#include "src/cpu/float_buffer.h"
#include "src/cpu/lut_t.h"
#include "src/cpu/pack.h"
#include "src/cpu/padding.h"
#include "src/cpu/parallel.h"

namespace vsa::cpu {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>;
constexpr float kLn2 = std::numbers::ln2_v<float>;

// As in packed_heads.cc, for about five times the floats of k.
constexpr int64_t kMaxPassFloats = int64_t{8} << 20;

class FineBackward {
 public:
  FineBackward(const Context& context, const FineBackwardArgs& args,
               const FineBackwardExtras& extras)
      : context_(context),
        args_(args),
        extras_(extras),
        q_plan_(*args.q_plan),
        kv_plan_(*args.kv_plan),
        head_dim_(args.q.shape[3]),
        ld_(round_up_lanes(head_dim_)),
        num_kv_heads_(args.k.shape[0] * args.k.shape[1]),
        group_size_(args.q.shape[1] / args.k.shape[1]),
        transposed_stride_(head_dim_ * round_up_lanes(kv_plan_.tile_tokens())),
        kv_rows_stride_(kv_plan_.tile_tokens() * ld_),
        q_rows_stride_(q_plan_.tile_tokens() * ld_) {
    const int64_t q_tiles = q_plan_.num_tiles();
    const int64_t kv_tiles = kv_plan_.num_tiles();
    const int64_t head_floats =
        kv_tiles * (2 * transposed_stride_ + kv_rows_stride_) + 2 * q_tiles * q_rows_stride_;
    max_heads_ = std::clamp<int64_t>(kMaxPassFloats / head_floats, 1, num_kv_heads_);
    k_transposed_ = FloatBuffer(max_heads_ * kv_tiles * transposed_stride_);
    v_transposed_ = FloatBuffer(max_heads_ * kv_tiles * transposed_stride_);
    k_rows_ = FloatBuffer(max_heads_ * kv_tiles * kv_rows_stride_);
    q_ = FloatBuffer(max_heads_ * q_tiles * q_rows_stride_);
    dout_ = FloatBuffer(max_heads_ * q_tiles * q_rows_stride_);
    lse_log2_ = FloatBuffer(max_heads_ * q_plan_.padded_len());
    delta_ = FloatBuffer(max_heads_ * q_plan_.padded_len());
    // Sums over a group must outlive one query head; without groups they are a thread's own.
    num_sums_ = group_size_ > 1 ? max_heads_ * kv_tiles : num_threads(context);
    dk_ = FloatBuffer(num_sums_ * kv_rows_stride_);
    dv_ = FloatBuffer(num_sums_ * kv_rows_stride_);
    rows_floats_ = std::max(kv_rows_stride_, q_rows_stride_);
    scratch_floats_ = fine_backward_scratch_size(q_plan_.tile_tokens(), kv_plan_.tile_tokens());
    rows_ = FloatBuffer(num_threads(context) * rows_floats_);
    scratch_ = FloatBuffer(num_threads(context) * scratch_floats_);
  }

  void run() {
    zero_padding(args_.dq, q_plan_);
    zero_padding(args_.dk, kv_plan_);
    zero_padding(args_.dv, kv_plan_);
    for (int64_t first = 0; first < num_kv_heads_; first += max_heads_) {
      const int64_t num_heads = std::min(max_heads_, num_kv_heads_ - first);
      for_each(num_heads, kv_plan_, [&](int64_t n, int64_t j, int thread) {
        pack_kv(first + n, n, j, rows_.data() + thread * rows_floats_);
      });
      for (int64_t g = 0; g < group_size_; ++g) {
        std::vector<LutT> tables;
        for (int64_t n = 0; n < num_heads; ++n) {
          const int64_t head = q_head(first + n, g);
          tables.emplace_back(args_.lut, head / args_.q.shape[1], head % args_.q.shape[1],
                              kv_plan_.num_tiles());
        }
        for_each(num_heads, q_plan_,
                 [&](int64_t n, int64_t i, int) { load_queries(q_head(first + n, g), n, i); });
        for_each(num_heads, q_plan_, [&](int64_t n, int64_t i, int thread) {
          dq_tile(q_head(first + n, g), n, i, thread);
        });
        for_each(num_heads, kv_plan_, [&](int64_t n, int64_t j, int thread) {
          dkv_tile(first + n, n, j, tables[static_cast<size_t>(n)].q_tiles(j), g, thread);
        });
      }
    }
  }

 private:
  /// Calls visit(n, tile, thread) for the plan's tiles of heads n < num_heads, in parallel.
  template <class Visit>
  void for_each(int64_t num_heads, const TilePlan& plan, const Visit& visit) const {
    const int64_t num_tiles = plan.num_tiles();
    parallel_for(context_, num_heads * num_tiles, [&](int64_t item, int thread) {
      visit(item / num_tiles, item % num_tiles, thread);
    });
  }

  /// b * H + h of the g-th query head that shares kv head b * H_kv + h_kv.
  int64_t q_head(int64_t kv_head, int64_t g) const { return kv_head * group_size_ + g; }

  void pack_kv(int64_t kv_head, int64_t n, int64_t j, float* rows) const {
    const int64_t b = kv_head / args_.k.shape[1];
    const int64_t h = kv_head % args_.k.shape[1];
    const int64_t slot = n * kv_plan_.num_tiles() + j;
    const int64_t count = kv_plan_.tile_len(j);
    load_rows(tile_rows(args_.k, b, h, kv_plan_, j), head_dim_, rows, ld_);
    pack_transposed(rows, ld_, count, head_dim_, k_transposed_.data() + slot * transposed_stride_);
    pack_rows(rows, ld_, count, head_dim_, k_rows_.data() + slot * kv_rows_stride_);
    load_rows(tile_rows(args_.v, b, h, kv_plan_, j), head_dim_, rows, ld_);
    pack_transposed(rows, ld_, count, head_dim_, v_transposed_.data() + slot * transposed_stride_);
  }

  void load_queries(int64_t head, int64_t n, int64_t i) const {
    const int64_t b = head / args_.q.shape[1];
    const int64_t h = head % args_.q.shape[1];
    const BackwardQueries to = queries(n);
    const int64_t first_row = i * q_plan_.tile_tokens();
    float* q = to.q + first_row * ld_;
    load_rows(tile_rows(args_.q, b, h, q_plan_, i), head_dim_, q, ld_);
    scale_rows(q, q_plan_.tile_len(i) * ld_, *args_.scale * kLog2E);
    load_output_gradient({.dout = tile_rows(args_.dout, b, h, q_plan_, i),
                          .out = tile_rows(args_.out, b, h, q_plan_, i),
                          .gate = gate_rows(extras_.gate_fine, b, h, q_plan_, i),
                          .head_dim = head_dim_},
                         to.dout + first_row * ld_, to.delta + first_row);
    const Rows lse = tile_rows(args_.lse, b, h, q_plan_, i);
    for (int64_t r = 0; r < lse.count; ++r) {
      to.lse_log2[first_row + r] = *static_cast<const float*>(lse.at(r)) * kLog2E;
    }
  }

  void dq_tile(int64_t head, int64_t n, int64_t i, int thread) const {
    const int64_t b = head / args_.q.shape[1];
    const int64_t h = head % args_.q.shape[1];
    float* dq = rows_.data() + thread * rows_floats_;
    fine_dq_tile(keys(n), queries(n), i, lut_row(args_.lut, b, h, i),
                 scratch_.data() + thread * scratch_floats_, dq);
    store_gradient(dq, *args_.scale, pooled_row(extras_.dq_pooled, b, h, i), head_dim_,
                   tile_rows(args_.dq, b, h, q_plan_, i));
  }

  void dkv_tile(int64_t kv_head, int64_t n, int64_t j, std::span<const int32_t> q_tiles, int64_t g,
                int thread) const {
    const int64_t b = kv_head / args_.k.shape[1];
    const int64_t h = kv_head % args_.k.shape[1];
    const int64_t sum = group_size_ > 1 ? n * kv_plan_.num_tiles() + j : thread;
    float* dk = dk_.data() + sum * kv_rows_stride_;
    float* dv = dv_.data() + sum * kv_rows_stride_;
    if (g == 0) {
      std::fill_n(dk, kv_rows_stride_, 0.0F);
      std::fill_n(dv, kv_rows_stride_, 0.0F);
    }
    fine_dkv_tile(keys(n), queries(n), j, q_tiles, scratch_.data() + thread * scratch_floats_, dk,
                  dv);
    if (g + 1 < group_size_) return;
    store_gradient(dk, kLn2, pooled_row(extras_.dk_pooled, b, h, j), head_dim_,
                   tile_rows(args_.dk, b, h, kv_plan_, j));
    store_gradient(dv, 1.0F, pooled_row(extras_.dv_pooled, b, h, j), head_dim_,
                   tile_rows(args_.dv, b, h, kv_plan_, j));
  }

  BackwardKv keys(int64_t n) const {
    const int64_t slot = n * kv_plan_.num_tiles();
    return {.k_transposed = k_transposed_.data() + slot * transposed_stride_,
            .v_transposed = v_transposed_.data() + slot * transposed_stride_,
            .k_rows = k_rows_.data() + slot * kv_rows_stride_,
            .transposed_stride = transposed_stride_,
            .rows_stride = kv_rows_stride_,
            .head_dim = head_dim_,
            .plan = &kv_plan_};
  }

  BackwardQueries queries(int64_t n) const {
    const int64_t first_row = n * q_plan_.padded_len();
    return {.q = q_.data() + first_row * ld_,
            .dout = dout_.data() + first_row * ld_,
            .lse_log2 = lse_log2_.data() + first_row,
            .delta = delta_.data() + first_row,
            .plan = &q_plan_};
  }

  static const float* pooled_row(const ConstTensor& x, int64_t b, int64_t h, int64_t t) {
    return x.empty() ? nullptr : static_cast<const float*>(x.data) + row_offset(x, b, h, t);
  }

  const Context& context_;
  const FineBackwardArgs& args_;
  const FineBackwardExtras& extras_;
  const TilePlan& q_plan_;
  const TilePlan& kv_plan_;
  const int64_t head_dim_, ld_, num_kv_heads_, group_size_;
  const int64_t transposed_stride_, kv_rows_stride_, q_rows_stride_;
  int64_t max_heads_, num_sums_, rows_floats_, scratch_floats_;
  FloatBuffer k_transposed_, v_transposed_, k_rows_;  // [max_heads, num_kv_tiles, *_stride_]
  FloatBuffer q_, dout_;                              // [max_heads, padded_len, ld]
  FloatBuffer lse_log2_, delta_;                      // [max_heads, padded_len]
  FloatBuffer dk_, dv_;                               // [num_sums, kv_rows_stride]
  FloatBuffer rows_, scratch_;                        // [threads, *_floats_]
};

}  // namespace

Status fine_backward(const Context& context, const FineBackwardArgs& args,
                     const FineBackwardExtras& extras) {
  FineBackward(context, args, extras).run();
  return {};
}

Status fine_backward(const Context& context, const FineBackwardArgs& args) {
  return cpu::fine_backward(context, args, {});
}

}  // namespace vsa::cpu
