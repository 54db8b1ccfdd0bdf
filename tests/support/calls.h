// One small valid call for each entrance, with its memory. Tests of wrong arguments start from
// these. B 2, H 4, H_kv 2, D 8, f32; queries on a grid of 4 tiles, keys on one of 6 (one axis
// partial).
#pragma once

#include <type_traits>

#include "tests/support/arena.h"
#include "vsa/stage_list.h"

namespace vsa::test {

struct CallBase {
  static constexpr int64_t kB = 2, kH = 4, kHkv = 2, kD = 8;
  Arena arena;
  Context context{.backend = BackendId::kCpu, .num_threads = 1};
  TilePlan q_plan = TilePlan::grid({2, 4, 4}, {2, 2, 2}).value();
  TilePlan kv_plan = TilePlan::grid({2, 4, 5}, {2, 2, 2}).value();
  int64_t sq = q_plan.seq_len();
  int64_t sk = kv_plan.seq_len();
  int64_t nq = q_plan.num_tiles();
  int64_t nk = kv_plan.num_tiles();

  Tensor q_like() { return arena.tensor(DType::kF32, {kB, kH, sq, kD}); }
  Tensor kv_like() { return arena.tensor(DType::kF32, {kB, kHkv, sk, kD}); }
  Tensor lse_like() { return arena.tensor(DType::kF32, {kB, kH, sq, 1}); }
  Tensor q_tiles() { return arena.tensor(DType::kF32, {kB, kH, nq, kD}); }
  Tensor kv_tiles() { return arena.tensor(DType::kF32, {kB, kHkv, nk, kD}); }
  /// Contiguous in the order [F, S, C].
  Tensor video(int64_t frames, int64_t pixels, int64_t channels) {
    const Tensor memory = arena.tensor(DType::kF32, {1, 1, frames * pixels, channels});
    return Tensor::bhsd(memory.data, DType::kF32, {1, frames, pixels, channels});
  }
  LutDims lut_dims(int64_t pitch) const { return {kB, kH, nq, pitch}; }
};

struct TileCall : CallBase {
  TileArgs args{.x = kv_like(),
                .plan = &kv_plan,
                .tiled = arena.tensor(DType::kF32, {kB, kHkv, kv_plan.padded_len(), kD})};
  Status run() const { return tile(context, args); }
};

struct UntileCall : CallBase {
  UntileArgs args{.tiled = arena.tensor(DType::kF32, {kB, kHkv, kv_plan.padded_len(), kD}),
                  .plan = &kv_plan,
                  .x = kv_like()};
  Status run() const { return untile(context, args); }
};

struct PoolCall : CallBase {
  PoolArgs args{.x = kv_like(), .plan = &kv_plan, .pooled = kv_tiles()};
  Status run() const { return pool(context, args); }
};

struct NormRopePoolCall : CallBase {
  NormRopePoolArgs args{.x = kv_like(),
                        .plan = &kv_plan,
                        .weight = arena.tensor(DType::kF32, {1, kHkv, 1, kD}),
                        .rstd = arena.tensor(DType::kF32, {kB, 1, sk, 1}),
                        .cos = arena.tensor(DType::kF32, {1, 1, sk, kD / 2}),
                        .sin = arena.tensor(DType::kF32, {1, 1, sk, kD / 2}),
                        .pooled = kv_tiles()};
  Status run() const { return norm_rope_pool(context, args); }
};

struct LinearCall : CallBase {
  LinearArgs args{.x = arena.tensor(DType::kF32, {1, 1, sk, 2 * kD}),
                  .weight = arena.tensor(DType::kF32, {1, 1, 3 * kD, 2 * kD}),
                  .bias = arena.tensor(DType::kF32, {1, 1, 1, 3 * kD}),
                  .activation = Activation::kGeluTanh,
                  .out = arena.tensor(DType::kF32, {1, 1, sk, 3 * kD})};
  Status run() const { return linear(context, args); }
};

struct ResidualNormCall : CallBase {
  Tensor modulation() { return arena.tensor(DType::kF32, {kB, kH, 1, kD}); }
  ResidualNormArgs args{.x = q_like(),
                        .y = q_like(),
                        .gate = modulation(),
                        .scale = modulation(),
                        .shift = modulation(),
                        .out = q_like()};
  Status run() const { return residual_norm(context, args); }
};

struct RelativeAttentionCall : CallBase {
  // With so many keys the rows of the bias, of 72 numbers, begin at multiples of 32 bytes.
  static constexpr int64_t kKeys = 41;
  Tensor keys() { return arena.tensor(DType::kF32, {kB, kHkv, kKeys, kD}); }
  RelativeAttentionArgs args{.q = q_like(),
                             .k = keys(),
                             .v = keys(),
                             .bias = arena.tensor(DType::kF32, {kB, kH, 1, sq + kKeys - 1}),
                             .out = q_like()};
  Status run() const { return relative_attention(context, args); }
};

/// Three frames of 4x3 pixels.
struct Conv3dCall : CallBase {
  Conv3dArgs args{.x = video(3, 12, kD),
                  .weight = video(2 * kD, 18, kD),
                  .height = 4,
                  .kernel_frames = 2,
                  .kernel_edge = 3,
                  .out = video(2, 12, 2 * kD)};
  Status run() const { return conv3d(context, args); }
};

struct PixelNormCall : CallBase {
  PixelNormArgs args{.y = q_like(),
                     .bias = arena.tensor(DType::kF32, {1, 1, 1, kD}),
                     .x = q_like(),
                     .gamma = arena.tensor(DType::kF32, {1, 1, 1, kD}),
                     .activation = Activation::kSilu,
                     .out = q_like()};
  Status run() const { return pixel_norm(context, args); }
};

struct UpsampleCall : CallBase {
  UpsampleArgs args{.x = video(3, 12, 2 * kD),
                    .bias = arena.tensor(DType::kF32, {1, 1, 1, 2 * kD}),
                    .height = 4,
                    .frames_each = 2,
                    .out = video(6, 48, kD)};
  Status run() const { return upsample(context, args); }
};

struct SoftmaxCall : CallBase {
  SoftmaxArgs args{.x = arena.tensor(DType::kF32, {kB, kH, sq, 2 * kD}),
                   .scale = 0.5F,
                   .columns = 2 * kD - 3,
                   .out = arena.tensor(DType::kF32, {kB, kH, sq, 2 * kD})};
  Status run() const { return softmax(context, args); }
};

struct PoolBackwardCall : CallBase {
  PoolBackwardArgs args{.dpooled = kv_tiles(), .plan = &kv_plan, .dx = kv_like()};
  Status run() const { return pool_backward(context, args); }
};

struct CoarseCall : CallBase {
  CoarseArgs args{.q_pooled = q_tiles(),
                  .k_pooled = kv_tiles(),
                  .v_pooled = kv_tiles(),
                  .kv_plan = &kv_plan,
                  .scale = std::nullopt,
                  .coarse_scores = arena.tensor(DType::kF32, {kB, kH, nq, nk}),
                  .coarse_out = q_tiles()};
  Status run() const { return coarse(context, args); }
};

struct CoarseBackwardCall : CallBase {
  CoarseBackwardArgs args{.q_pooled = q_tiles(),
                          .k_pooled = kv_tiles(),
                          .v_pooled = kv_tiles(),
                          .kv_plan = &kv_plan,
                          .scale = std::nullopt,
                          .dcoarse_out = q_tiles(),
                          .dq_pooled = q_tiles(),
                          .dk_pooled = kv_tiles(),
                          .dv_pooled = kv_tiles()};
  Status run() const { return coarse_backward(context, args); }
};

struct SelectCall : CallBase {
  std::vector<int32_t> forced{1, 4};
  std::vector<int32_t> dense;
  SelectArgs args{.coarse_scores = arena.tensor(DType::kF32, {kB, kH, nq, nk}),
                  .options = {.topk = 2, .forced_columns = forced, .dense_rows = dense},
                  .lut = arena.lut(lut_dims(4))};
  Status run() const { return select(context, args); }
};

struct FineCall : CallBase {
  FineArgs args{.q = q_like(),
                .k = kv_like(),
                .v = kv_like(),
                .q_plan = &q_plan,
                .kv_plan = &kv_plan,
                .lut = arena.lut(lut_dims(3)),
                .scale = std::nullopt,
                .out = q_like(),
                .lse = lse_like()};
  Status run() const { return fine(context, args); }
};

struct FineBackwardCall : CallBase {
  FineBackwardArgs args{.q = q_like(),
                        .k = kv_like(),
                        .v = kv_like(),
                        .q_plan = &q_plan,
                        .kv_plan = &kv_plan,
                        .lut = arena.lut(lut_dims(3)),
                        .scale = std::nullopt,
                        .out = q_like(),
                        .lse = lse_like(),
                        .dout = q_like(),
                        .dq = q_like(),
                        .dk = kv_like(),
                        .dv = kv_like()};
  Status run() const { return fine_backward(context, args); }
};

struct CombineCall : CallBase {
  CombineArgs args{.fine_out = q_like(),
                   .coarse_out = q_tiles(),
                   .gate_coarse = Gate::tensor(q_like()),
                   .gate_fine = Gate::one(),
                   .q_plan = &q_plan,
                   .out = q_like()};
  Status run() const { return combine(context, args); }
};

struct CombineBackwardCall : CallBase {
  CombineBackwardArgs args{.fine_out = q_like(),
                           .coarse_out = q_tiles(),
                           .gate_coarse = Gate::tensor(q_like()),
                           .gate_fine = Gate::one(),
                           .q_plan = &q_plan,
                           .dout = q_like(),
                           .dfine_out = q_like(),
                           .dcoarse_out = q_tiles(),
                           .dgate_coarse = q_like(),
                           .dgate_fine = q_like()};
  Status run() const { return combine_backward(context, args); }
};

struct AttentionCall : CallBase {
  std::vector<int32_t> forced{1, 4};
  AttentionArgs args{.q = q_like(),
                     .k = kv_like(),
                     .v = kv_like(),
                     .gate_coarse = Gate::tensor(q_like()),
                     .gate_fine = Gate::one(),
                     .q_plan = &q_plan,
                     .kv_plan = &kv_plan,
                     .select = {.topk = 2, .forced_columns = forced, .dense_rows = {}},
                     .lut = {},
                     .scale = std::nullopt,
                     .q_pooled = q_tiles(),
                     .k_pooled = kv_tiles(),
                     .v_pooled = kv_tiles(),
                     .coarse_out = q_tiles(),
                     .out = q_like(),
                     .lse = lse_like(),
                     .fine_out = q_like(),
                     .lut_out = arena.lut(lut_dims(4))};
  Status run() const { return attention_forward(context, args); }
};

struct AttentionBackwardCall : CallBase {
  AttentionBackwardArgs args{.q = q_like(),
                             .k = kv_like(),
                             .v = kv_like(),
                             .gate_coarse = Gate::tensor(q_like()),
                             .gate_fine = Gate::one(),
                             .q_plan = &q_plan,
                             .kv_plan = &kv_plan,
                             .lut = arena.lut(lut_dims(3)),
                             .scale = std::nullopt,
                             .lse = lse_like(),
                             .fine_out = q_like(),
                             .dout = q_like(),
                             .dq = q_like(),
                             .dk = kv_like(),
                             .dv = kv_like(),
                             .dgate_coarse = q_like(),
                             .dgate_fine = q_like()};
  Status run() const { return attention_backward(context, args); }
};

template <class Args, class... Calls>
struct FindCall;
template <class Args, class First, class... Rest>
struct FindCall<Args, First, Rest...>
    : std::conditional_t<std::is_same_v<decltype(First::args), Args>, std::type_identity<First>,
                         FindCall<Args, Rest...>> {};

/// The valid call with these arguments. Tests of all stages take it for each stage of the list, so
/// they do not compile until a new stage has one here.
template <class Args>
using ValidCall =
    typename FindCall<Args, TileCall, UntileCall, PoolCall, NormRopePoolCall, LinearCall,
                      ResidualNormCall, RelativeAttentionCall, Conv3dCall, PixelNormCall,
                      UpsampleCall, SoftmaxCall, PoolBackwardCall, CoarseCall, CoarseBackwardCall,
                      SelectCall, FineCall, FineBackwardCall, CombineCall, CombineBackwardCall,
                      AttentionCall, AttentionBackwardCall>::type;

}  // namespace vsa::test
