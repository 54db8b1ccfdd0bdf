// Packs keys and values of a few heads at a time. Host-only.
#include "src/cpu/fine/packed_heads.h"

#include <algorithm>

#include "src/cpu/coarse/round_bf16.h"
#include "src/cpu/support/pack.h"

namespace vsa::cpu {
namespace {

// 16 MiB of panels: heads below it share a pass. A head of 8192 tokens with head_dim 128 alone
// takes 8 MiB, and should stay in the last cache level.
constexpr int64_t kMaxPassFloats = int64_t{2} << 20;

}  // namespace

PackedHeads::PackedHeads(const Context& context, const ConstTensor& k, const ConstTensor& v,
                         const TilePlan& plan, const PackOptions& options)
    : k_(k),
      v_(v),
      plan_(&plan),
      options_(options),
      head_dim_(k.shape[3]),
      ld_(round_up_lanes(head_dim_)),
      k_tile_stride_(head_dim_ * round_up_lanes(plan.tile_tokens())),
      v_tile_stride_(plan.tile_tokens() * ld_) {
  const int64_t num_tiles = plan.num_tiles();
  const int64_t head_floats = num_tiles * (k_tile_stride_ + v_tile_stride_);
  max_heads_ = std::clamp<int64_t>(kMaxPassFloats / head_floats, 1, k.shape[0] * k.shape[1]);
  if (options.fine) {
    k_packed_ = FloatBuffer(max_heads_ * num_tiles * k_tile_stride_);
    v_packed_ = FloatBuffer(max_heads_ * num_tiles * v_tile_stride_);
  }
  if (options.pooled) {
    k_means_ = FloatBuffer(max_heads_ * num_tiles * ld_);
    k_means_packed_ = FloatBuffer(max_heads_ * head_dim_ * round_up_lanes(num_tiles));
    v_means_ = FloatBuffer(max_heads_ * num_tiles * ld_);
  }
  rows_ = FloatBuffer(num_threads(context) * v_tile_stride_);
}

void PackedHeads::pack(const Context& context, int64_t first, int64_t num_heads) {
  const int64_t num_tiles = plan_->num_tiles();
  parallel_for(context, num_heads * num_tiles, [&](int64_t item, int thread) {
    const int64_t n = item / num_tiles;
    pack_tile(first + n, n, item % num_tiles, rows_.data() + thread * v_tile_stride_);
  });
  if (!options_.pooled) return;
  parallel_for(context, num_heads, [&](int64_t n, int) {
    pack_transposed(k_mean(n, 0), ld_, num_tiles, head_dim_,
                    k_means_packed_.data() + n * head_dim_ * round_up_lanes(num_tiles));
  });
}

void PackedHeads::pack_tile(int64_t head, int64_t n, int64_t tile, float* rows) {
  const int64_t b = head / k_.shape[1];
  const int64_t h = head % k_.shape[1];
  const int64_t count = plan_->tile_len(tile);
  const int64_t slot = n * plan_->num_tiles() + tile;

  load_rows(tile_rows(k_, b, h, *plan_, tile), head_dim_, rows, ld_);
  const auto mean = [&](const ConstTensor& given, float* to) {
    if (given.empty()) {
      mean_of_rows(rows, ld_, count, head_dim_, to);
    } else {
      std::copy_n(f32_row(given, b, h, tile), head_dim_, to);
    }
    round_row(options_.rounding, to, head_dim_);
  };
  if (options_.pooled) mean(options_.k_pooled, k_mean(n, tile));
  if (options_.fine) {
    pack_transposed(rows, ld_, count, head_dim_, k_packed_.data() + slot * k_tile_stride_);
  }
  load_rows(tile_rows(v_, b, h, *plan_, tile), head_dim_, rows, ld_);
  if (options_.pooled) mean(options_.v_pooled, v_mean(n, tile));
  if (options_.fine) {
    pack_rows(rows, ld_, count, head_dim_, v_packed_.data() + slot * v_tile_stride_);
  }
}

float* PackedHeads::k_mean(int64_t n, int64_t tile) const {
  return k_means_.data() + (n * plan_->num_tiles() + tile) * ld_;
}
float* PackedHeads::v_mean(int64_t n, int64_t tile) const {
  return v_means_.data() + (n * plan_->num_tiles() + tile) * ld_;
}

PackedKv PackedHeads::fine(int64_t n) const {
  const int64_t slot = n * plan_->num_tiles();
  return {.k = k_packed_.data() + slot * k_tile_stride_,
          .v = v_packed_.data() + slot * v_tile_stride_,
          .k_tile_stride = k_tile_stride_,
          .v_tile_stride = v_tile_stride_,
          .head_dim = head_dim_,
          .plan = plan_};
}

PooledKv PackedHeads::pooled(int64_t n) const {
  return {.k_packed = k_means_packed_.data() + n * head_dim_ * round_up_lanes(plan_->num_tiles()),
          .v = v_mean(n, 0),
          .head_dim = head_dim_,
          .plan = plan_,
          .rounding = options_.rounding};
}

}  // namespace vsa::cpu
