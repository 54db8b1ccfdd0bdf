// residual_norm: residual addition, gate, layer or RMS norm, modulation in one pass over a token.
//
//   x, y -> x + gate * y -> rounded -> x
//                             +-> mean (RMS norm: 0) -> centred squares -> rstd
//                                                       -> times scale, plus shift -> out
//
// A CTA of one to eight warps, by the width of a token, processes one token of all heads. A thread
// has up to four pieces of 8 adjacent elements (16 bytes of a 16-bit dtype, 32 of f32) and keeps
// them in registers between the passes, so x and y are read once. The sums are over shuffles within
// a warp and then over the warps, in the same order in every thread.
//
// The least traffic for [1, 12, 32760, 128] with x in f32: x is read and written (2 x 201.3 MB), y
// read and out written (2 x 100.6 MB), together 604 MB, which take 0.142 ms at 4.24 TB/s; gate,
// scale and shift are 18 KiB that remain in the caches. Without y, 302 MB and 0.071 ms.
// Shared memory: a sum of each warp for either pass, 64 bytes. Barriers: __syncthreads after each
// pass, if there is more than one warp.
#include "src/cuda/residual_norm/residual_norm.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/numbers.h"
#include "src/cuda/support/pdl.h"

namespace vsa::cuda {
namespace {

using Piece = float[kPieceElements];

/// How the elements of a piece lie in memory. Reading and writing pass the caches by, as nothing of
/// a token is used twice.
template <class T>
struct PieceOf {
  __device__ __forceinline__ static void load(const T* from, Piece& to) {
    unpack8<T>(__ldcs(reinterpret_cast<const uint4*>(from)), to);
  }
  /// Rounds to T, and replaces x by the rounded values.
  __device__ __forceinline__ static void store(Piece& x, T* to) {
    const uint4 packed = pack8<T>(x);
    *reinterpret_cast<uint4*>(to) = packed;
    unpack8<T>(packed, x);
  }
};

template <>
struct PieceOf<float> {
  __device__ __forceinline__ static void load(const float* from, Piece& to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 four = __ldcs(reinterpret_cast<const float4*>(from) + half);
      to[4 * half] = four.x;
      to[4 * half + 1] = four.y;
      to[4 * half + 2] = four.z;
      to[4 * half + 3] = four.w;
    }
  }
  __device__ __forceinline__ static void store(Piece& x, float* to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      reinterpret_cast<float4*>(to)[half] = {x[4 * half], x[4 * half + 1], x[4 * half + 2],
                                             x[4 * half + 3]};
    }
  }
};

/// A piece of gate, scale or shift, which all tokens of a batch item read.
__device__ __forceinline__ void load_shared_piece(const ConstRows& rows, int64_t b, int head,
                                                  int column, Piece& to) {
  const float* from =
      static_cast<const float*>(rows.data) + b * rows.batch + head * rows.head + column;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(from) + half);
    to[4 * half] = four.x;
    to[4 * half + 1] = four.y;
    to[4 * half + 2] = four.z;
    to[4 * half + 3] = four.w;
  }
}

/// The sum over all threads of the CTA, the same bits in each of them. `partial` is used once.
__device__ __forceinline__ float sum_over_cta(float sum, float (&partial)[kMaxTokenWarps]) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (warps == 1) return sum;
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = partial[0];
  for (int warp = 1; warp < warps; ++warp) sum += partial[warp];
  return sum;
}

/// Where the pieces of this thread are.
struct PieceAt {
  int head, column;
  bool exists;
};
__device__ __forceinline__ PieceAt piece_at(const ResidualNormParams& p, int i) {
  const int pieces_per_head = p.head_dim / kPieceElements;
  const int piece = i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  const int head = piece / pieces_per_head;
  return {head, (piece - head * pieces_per_head) * kPieceElements, head < p.num_heads};
}

template <class T, class AnyRows>
__device__ __forceinline__ auto* token_of(const AnyRows& rows, int64_t b, int64_t s) {
  return static_cast<T*>(rows.data) + b * rows.batch + s * rows.seq;
}

/// grid: x tokens, y batch. X is the type of x, T that of y and out.
template <class X, class T, int kPieces>
__global__ void __launch_bounds__(kMaxTokenWarps * 32)
    residual_norm_kernel(const __grid_constant__ ResidualNormParams p) {
  __shared__ float sums[kMaxTokenWarps];
  __shared__ float squares[kMaxTokenWarps];
  pdl_wait_and_trigger();
  const auto s = static_cast<int64_t>(blockIdx.x);
  const auto b = static_cast<int64_t>(blockIdx.y);
  X* const x_token = token_of<X>(p.x, b, s);

  Piece x[kPieces] = {};
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const PieceAt at = piece_at(p, i);
    if (at.exists) PieceOf<X>::load(x_token + at.head * p.x.head + at.column, x[i]);
  }
  if (p.y.data != nullptr) {
    const T* const y_token = token_of<const T>(p.y, b, s);
    Piece y[kPieces] = {};
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {  // all loads before the first use
      const PieceAt at = piece_at(p, i);
      if (at.exists) PieceOf<T>::load(y_token + at.head * p.y.head + at.column, y[i]);
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const PieceAt at = piece_at(p, i);
      if (!at.exists) continue;
      Piece gate;
#pragma unroll
      for (int j = 0; j < kPieceElements; ++j) gate[j] = 1.0F;
      if (p.gate.data != nullptr) load_shared_piece(p.gate, b, at.head, at.column, gate);
#pragma unroll
      for (int j = 0; j < kPieceElements; ++j) x[i][j] = fmaf(gate[j], y[i][j], x[i][j]);
      PieceOf<X>::store(x[i], x_token + at.head * p.x.head + at.column);
    }
  }
  if (p.out.data == nullptr) return;

  const auto width = static_cast<float>(p.num_heads * p.head_dim);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {  // pieces that do not exist are 0
#pragma unroll
    for (int j = 0; j < kPieceElements; ++j) sum += x[i][j];
  }
  // Summed in any case: around a branch ptxas spills a register.
  const float mean_of_all = sum_over_cta(sum, sums) / width;
  const float mean = p.norm == NormKind::kRms ? 0.0F : mean_of_all;
  float square_sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (!piece_at(p, i).exists) continue;
#pragma unroll
    for (int j = 0; j < kPieceElements; ++j) {
      x[i][j] -= mean;
      square_sum = fmaf(x[i][j], x[i][j], square_sum);
    }
  }
  const float rstd = rsqrtf(sum_over_cta(square_sum, squares) / width + p.eps);

  T* const out_token = token_of<T>(p.out, b, s);
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const PieceAt at = piece_at(p, i);
    if (!at.exists) continue;
#pragma unroll
    for (int j = 0; j < kPieceElements; ++j) x[i][j] *= rstd;
    if (p.scale.data != nullptr) {
      Piece scale;
      load_shared_piece(p.scale, b, at.head, at.column, scale);
#pragma unroll
      for (int j = 0; j < kPieceElements; ++j) x[i][j] *= scale[j];
    }
    if (p.shift.data != nullptr) {
      Piece shift;
      load_shared_piece(p.shift, b, at.head, at.column, shift);
#pragma unroll
      for (int j = 0; j < kPieceElements; ++j) x[i][j] += shift[j];
    }
    PieceOf<T>::store(x[i], out_token + at.head * p.out.head + at.column);
  }
}

template <class X, class T>
Status launch_for(const CallSite& at, const ResidualNormParams& params, const LaunchShape& shape,
                  int pieces) {
  static_assert(kMaxTokenPieces == 4);
  const auto kernel = pieces == 1   ? residual_norm_kernel<X, T, 1>
                      : pieces == 2 ? residual_norm_kernel<X, T, 2>
                      : pieces == 3 ? residual_norm_kernel<X, T, 3>
                                    : residual_norm_kernel<X, T, 4>;
  return launch(at, kernel, shape, params);
}

}  // namespace

Status run_residual_norm(const CallSite& at, const ResidualNormParams& params, DType x_dtype,
                         DType dtype, const std::array<int64_t, 4>& shape) {
  const TokenSplit split = token_split(shape[1] * shape[3]);
  const LaunchShape launched{.grid = dim3(grid_extent(shape[2]), grid_extent(shape[0])),
                             .block = dim3(static_cast<unsigned>(split.warps * 32)),
                             .overlaps_previous = true};
  const bool bf16 = dtype == DType::kBF16;
  if (x_dtype == DType::kF32) {
    return bf16 ? launch_for<float, __nv_bfloat16>(at, params, launched, split.pieces)
                : launch_for<float, __half>(at, params, launched, split.pieces);
  }
  return bf16 ? launch_for<__nv_bfloat16, __nv_bfloat16>(at, params, launched, split.pieces)
              : launch_for<__half, __half>(at, params, launched, split.pieces);
}

}  // namespace vsa::cuda
