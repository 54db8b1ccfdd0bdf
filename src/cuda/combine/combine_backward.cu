// combine_backward: the gradients of combine, and the delta of the fine backward, in one pass.
//
//   each token:  dout, fine_out, gates -> dfine_out = gate_fine * dout, dgate_fine, dgate_coarse,
//                                         delta = sum over head_dim of fine_out * dfine_out
//   each tile:   sum over its tokens of gate_coarse * dout -> dcoarse_out
//
// A CTA processes one tile of one head. A thread processes 8 adjacent elements (16 bytes) of a row,
// so the CTA processes 8 rows at once (head_dim 128) or 16 (head_dim 64); a thread loads two of its
// rows before it uses the first. Shared memory: positions of the tokens 1 KiB, for each thread the
// sums over its rows 4 KiB. Barriers: __syncthreads after the positions, and before the sums of the
// threads are added.
#include "src/cuda/combine/combine_backward.h"
#include "src/cuda/plan/token_pieces.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kInFlight = 2;  // tokens that a thread loads before it uses the first one
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kCtasOfSm = 4;  // registers do not suffice for 5
#else
// With these values of kThreads, kInFlight and kCtasOfSm the kernel takes 115 us at
// [1, 12, 32768, 128] on an H200; other values that were tried took 117 to 211 us.
constexpr int kCtasOfSm = 5;
#endif

/// What a thread reads of one token.
struct Loaded {
  uint4 dout, fine, gate_fine, gate_coarse;

  template <class T>
  __device__ __forceinline__ void load(const CombineBackwardParams& p, const Token<T>& token,
                                       bool reads_fine) {
    dout = token.load(p.dout);
    fine = reads_fine ? token.load(p.fine_out) : uint4{};
    gate_fine = token.load(p.gate_fine.rows);
    gate_coarse = token.load(p.gate_coarse.rows);
  }
};

template <class T>
__device__ __forceinline__ Piece gate_piece(const GateRows& gate, const uint4& raw) {
  if (gate.rows.data != nullptr) return Piece::unpack<T>(raw);
  Piece piece;
#pragma unroll
  for (float& x : piece.x) x = gate.constant;
  return piece;
}

template <class T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, kCtasOfSm)
    combine_backward_kernel(const __grid_constant__ CombineBackwardParams p) {
  constexpr int kPieces = kHeadDim / kElements;    // threads of a row
  constexpr int kRowsAtOnce = kThreads / kPieces;  // 8 or 16
  __shared__ int32_t positions[kMaxTileRows];
  __shared__ float sums[kRowsAtOnce][kHeadDim];
  const Place place(p.num_heads);
  const int rows = tile_positions(p.plan, place.tile, positions);
  const int len = p.plan.tile_len[place.tile];
  const int column = static_cast<int>(threadIdx.x) % kPieces * kElements;
  const int down = static_cast<int>(threadIdx.x) / kPieces;

  Piece coarse{};
  if (p.dgate_coarse.data != nullptr) {
    const float* from = static_cast<const float*>(p.coarse_out.data) +
                        place.offset(p.coarse_out, place.tile) + column;
#pragma unroll
    for (int j = 0; j < kElements; ++j) coarse.x[j] = __ldg(from + j);
  }
  const bool reads_fine = p.delta.data != nullptr || p.dgate_fine.data != nullptr;
  Piece sum{};
  for (int first = 0; first < rows; first += kRowsAtOnce * kInFlight) {
    Loaded loaded[kInFlight];
#pragma unroll
    for (int n = 0; n < kInFlight; ++n) {
      const int row = first + n * kRowsAtOnce + down;
      if (row < len) loaded[n].load(p, Token<T>(place, positions[row], column), reads_fine);
    }
#pragma unroll
    for (int n = 0; n < kInFlight; ++n) {
      const int row = first + n * kRowsAtOnce + down;
      const int64_t position = row < rows ? positions[row] : 0;
      const Token<T> token(place, position, column);
      float delta = 0.0F;
      if (row < len) {
        const Piece dout = Piece::unpack<T>(loaded[n].dout);
        const Piece fine = Piece::unpack<T>(loaded[n].fine);
        if (p.dcoarse_out.data != nullptr) {
          const Piece gate = gate_piece<T>(p.gate_coarse, loaded[n].gate_coarse);
#pragma unroll
          for (int j = 0; j < kElements; ++j) sum.x[j] = fmaf(gate.x[j], dout.x[j], sum.x[j]);
        }
        const uint4 dfine_raw =
            (gate_piece<T>(p.gate_fine, loaded[n].gate_fine) * dout).template pack<T>();
        const Piece dfine = Piece::unpack<T>(dfine_raw);
#pragma unroll
        for (int j = 0; j < kElements; ++j) delta = fmaf(fine.x[j], dfine.x[j], delta);
        token.store(p.dfine_out, dfine_raw);
        token.store(p.dgate_fine, (fine * dout).template pack<T>());
        token.store(p.dgate_coarse, (coarse * dout).template pack<T>());
      } else if (row < rows) {
        token.store(p.dfine_out, {});
        token.store(p.dgate_fine, {});
        token.store(p.dgate_coarse, {});
      }
      if (p.delta.data == nullptr) continue;
#pragma unroll
      for (int mask = kPieces / 2; mask > 0; mask /= 2) {
        delta += __shfl_xor_sync(kAllLanes, delta, mask);
      }
      if (column == 0 && row < rows) {
        static_cast<float*>(p.delta.data)[place.offset(p.delta, position)] = delta;
      }
    }
  }
  if (p.dcoarse_out.data == nullptr) return;
#pragma unroll
  for (int j = 0; j < kElements; ++j) sums[down][column + j] = sum.x[j];
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < kHeadDim; d += kThreads) {
    float total = 0.0F;
    for (int i = 0; i < kRowsAtOnce; ++i) total += sums[i][d];
    static_cast<float*>(p.dcoarse_out.data)[place.offset(p.dcoarse_out, place.tile) + d] = total;
  }
}

template <class T>
Status run_typed(const CallSite& at, const CombineBackwardParams& params,
                 const LaunchShape& shape) {
  return params.head_dim == 128 ? launch(at, combine_backward_kernel<T, 128>, shape, params)
                                : launch(at, combine_backward_kernel<T, 64>, shape, params);
}

}  // namespace

Status run_combine_backward(const CallSite& at, const CombineBackwardParams& params, DType dtype,
                            int64_t batch) {
  const LaunchShape shape = shape_of_tiles(params, batch, kThreads);
  return dtype == DType::kBF16 ? run_typed<__nv_bfloat16>(at, params, shape)
                               : run_typed<__half>(at, params, shape);
}

}  // namespace vsa::cuda
