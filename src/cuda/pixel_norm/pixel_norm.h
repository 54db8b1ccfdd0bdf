// The pixel_norm kernel, its parameters and how threads share a pixel. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <array>

#include "src/cuda/support/launch.h"
#include "src/cuda/support/rows.h"
#include "vsa/pixel_norm.h"

namespace vsa::cuda {

inline constexpr int kChannelPiece = 8;  // 16 bytes of a 16-bit dtype

/// How many threads have a pixel, and how many pieces of 8 channels each of them keeps.
struct PixelSplit {
  int lanes = 1;   ///< a power of two up to 32, beside one another in a warp
  int pieces = 1;  ///< of a thread, up to kMaxPixelPieces
};
// With eight pieces, bias and gamma of them, ptxas spills.
inline constexpr int kMaxPixelPieces = 4;
inline constexpr int64_t kMaxChannels = int64_t{32} * kMaxPixelPieces * kChannelPiece;  // 1024
/// The fewest lanes that need at most 3 pieces each, so that the channels of Wan's VAE (96, 192 and
/// 384: 12, 24 and 48 pieces) leave no lane idle; above 768 channels a whole warp.
/// @param channels  a multiple of 8 up to kMaxChannels
PixelSplit pixel_split(int64_t channels);

struct PixelNormParams {
  ConstRows y;                   // the token dtype
  Rows x;                        // the token dtype; data may be null
  Rows out;                      // the token dtype or f32; data may be null
  const float* bias = nullptr;   // [channels]; may be null
  const float* gamma = nullptr;  // [channels]; may be null
  int32_t channels = 0;
  int32_t channels_out = 0;
  int32_t num_pixels = 0;  // of a frame
  int32_t lanes = 1;
  bool adds = false;  // x is read, too
  bool silu = false;
  bool out_is_f32 = false;
};
/// Enqueues the kernel.
/// @param dtype  of y and x, bf16 or f16
/// @param shape  of y
Status run_pixel_norm(const CallSite& at, const PixelNormParams& params, DType dtype,
                      const std::array<int64_t, 4>& shape);

}  // namespace vsa::cuda
