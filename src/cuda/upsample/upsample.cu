// upsample: a thread reads 8 channels of a pixel (16 bytes), adds the bias and writes them four
// times. Neighbouring threads have neighbouring channels, so reads and writes are of whole sectors.
// The least traffic for 8 frames of 240x416 with 192 channels in bf16: 0.31 GB are read and 1.23 GB
// written, which takes 0.36 ms at 4.24 TB/s.
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/pdl.h"
#include "src/cuda/upsample/upsample.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPiece = 8;

/// grid: x pieces of a frame of x, y frames of x.
template <class T>
__global__ void __launch_bounds__(kThreads)
    upsample_kernel(const __grid_constant__ UpsampleParams p) {
  pdl_wait_and_trigger();
  const int pieces_of_pixel = p.channels_in / kPiece;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= static_cast<int64_t>(p.height) * p.width * pieces_of_pixel) return;
  const int piece = static_cast<int>(index);
  const int pixel = piece / pieces_of_pixel;
  const int channel = (piece - pixel * pieces_of_pixel) * kPiece;
  const int row = pixel / p.width;
  const int column = pixel - row * p.width;
  const auto frame = static_cast<int64_t>(blockIdx.y);
  const int64_t pixels = static_cast<int64_t>(p.height) * p.width;

  uint4 value = __ldcs(reinterpret_cast<const uint4*>(
      static_cast<const T*>(p.x) + (frame * pixels + pixel) * p.channels_in + channel));
  if (p.bias != nullptr) {
    float v[kPiece];
    unpack8<T>(value, v);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) v[j] += __ldg(p.bias + channel + j);
    value = pack8<T>(v);
  }
  const int part = channel / p.channels;  // which of the frames that this one becomes
  const int parts = p.channels_in / p.channels;
  const int64_t out_frame = frame * parts + part;
  const int64_t width = 2 * static_cast<int64_t>(p.width);
  T* const out = static_cast<T*>(p.out) + channel - part * p.channels;
#pragma unroll
  for (int copy = 0; copy < 4; ++copy) {
    const int64_t to =
        out_frame * 4 * pixels + (2 * row + copy / 2) * width + 2 * column + copy % 2;
    *reinterpret_cast<uint4*>(out + to * p.channels) = value;
  }
}

}  // namespace

Status run_upsample(const CallSite& at, const UpsampleParams& params, DType dtype, int64_t frames) {
  const int64_t pieces =
      static_cast<int64_t>(params.height) * params.width * (params.channels_in / kPiece);
  const LaunchShape launched{.grid = dim3(grid_extent(pieces, kThreads), grid_extent(frames)),
                             .block = dim3(kThreads),
                             .overlaps_previous = true};
  return launch(at,
                dtype == DType::kBF16 ? upsample_kernel<__nv_bfloat16> : upsample_kernel<__half>,
                launched, params);
}

}  // namespace vsa::cuda
