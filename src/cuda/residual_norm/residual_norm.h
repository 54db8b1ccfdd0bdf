// The residual_norm kernel, its parameters and how it divides a token among threads. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/support/launch.h"
#include "src/cuda/support/rows.h"
#include "vsa/residual_norm.h"

namespace vsa::cuda {

/// How many threads have a token, and how many pieces of 8 elements each of them keeps.
struct TokenSplit {
  int warps = 1;   ///< a power of two up to kMaxTokenWarps; the CTA has no other threads
  int pieces = 1;  ///< of a thread, up to kMaxTokenPieces
};
inline constexpr int kPieceElements = 8;  // 16 bytes of a 16-bit dtype
inline constexpr int kMaxTokenWarps = 8;
// x in f32 and y take 16 registers a piece while the next ones are loaded. With four pieces ptxas
// uses 91 registers of a thread, so that two CTAs of 8 warps are on a multiprocessor.
inline constexpr int kMaxTokenPieces = 4;
/// The widest token, in elements of all its heads: 8192.
inline constexpr int64_t kMaxTokenWidth =
    int64_t{32} * kMaxTokenWarps * kMaxTokenPieces * kPieceElements;

/// The fewest warps that can keep a token of `width` elements, a multiple of 8 up to
/// kMaxTokenWidth, and the fewest pieces with so many warps.
TokenSplit token_split(int64_t width);

struct ResidualNormParams {
  Rows x;                        // f32 or the token dtype; written if there is a y
  ConstRows y;                   // the token dtype; data may be null
  ConstRows gate, scale, shift;  // f32 [B, H, 1, D]; data may be null
  Rows out;                      // the token dtype; data may be null
  float eps = 0.0F;
  NormKind norm = NormKind::kLayer;
  int32_t num_heads = 0;
  int32_t head_dim = 0;  // a multiple of 8
};
/// Enqueues the kernel.
/// @param dtype  of y and out, bf16 or f16; that of x is f32 or the same
Status run_residual_norm(const CallSite& at, const ResidualNormParams& params, DType x_dtype,
                         DType dtype, const std::array<int64_t, 4>& shape);

}  // namespace vsa::cuda
