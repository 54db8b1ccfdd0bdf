// combine: out = gate_fine * fine_out + gate_coarse * coarse_out of the token's tile.
//
//   fine_out, gates of each token; coarse_out of its tile -> registers -> out; 0 in padding rows
//
// A CTA processes one tile of one head; a thread processes 8 adjacent elements (16 bytes) of a row.
// Shared memory: positions of the tokens, 1 KiB.
#include "src/cuda/combine/combine.h"
#include "src/cuda/plan/tile_positions.h"
#include "src/cuda/support/half_type.h"
#include "src/cuda/support/launch.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;  // of a thread, 16 bytes

/// grid: x tiles, y heads, z batch
template <class AnyRows>
__device__ __forceinline__ int64_t head_offset(const AnyRows& rows) {
  return blockIdx.z * rows.batch + blockIdx.y * rows.head;
}

template <class T>
__device__ __forceinline__ void load8(const T* from, float (&to)[kElements]) {
  unpack8<T>(__ldg(reinterpret_cast<const uint4*>(from)), to);
}

template <class T>
__device__ __forceinline__ void load_gate(const GateRows& gate, int64_t position, int column,
                                          float (&to)[kElements]) {
  if (gate.rows.data != nullptr) {
    load8(static_cast<const T*>(gate.rows.data) + head_offset(gate.rows) +
              position * gate.rows.seq + column,
          to);
    return;
  }
#pragma unroll
  for (float& x : to) x = gate.constant;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(const __grid_constant__ CombineParams p) {
  __shared__ int32_t positions[kMaxTileRows];
  const int tile = static_cast<int>(blockIdx.x);
  const int rows = tile_positions(p.plan, tile, positions);
  const int len = p.plan.tile_len[tile];
  const int pieces = p.head_dim / kElements;
  const float* coarse = p.coarse_out;
  if (coarse != nullptr) {
    coarse += blockIdx.z * p.coarse_batch + blockIdx.y * p.coarse_head + tile * p.coarse_seq;
  }
  T* const out = static_cast<T*>(p.out.data) + head_offset(p.out);
  for (int i = static_cast<int>(threadIdx.x); i < rows * pieces; i += kThreads) {
    const int row = i / pieces;
    const int column = i % pieces * kElements;
    const int64_t position = positions[row];
    float x[kElements] = {};
    if (row < len) {
      float gate[kElements];
      if (p.fine_out.data != nullptr) {
        float fine[kElements];
        load8(static_cast<const T*>(p.fine_out.data) + head_offset(p.fine_out) +
                  position * p.fine_out.seq + column,
              fine);
        load_gate<T>(p.gate_fine, position, column, gate);
#pragma unroll
        for (int j = 0; j < kElements; ++j) x[j] = gate[j] * fine[j];
      }
      if (coarse != nullptr) {
        load_gate<T>(p.gate_coarse, position, column, gate);
#pragma unroll
        for (int j = 0; j < kElements; ++j) x[j] = fmaf(gate[j], __ldg(coarse + column + j), x[j]);
      }
    }
    *reinterpret_cast<uint4*>(out + position * p.out.seq + column) = pack8<T>(x);
  }
}

}  // namespace

Status run_combine(const CallSite& at, const CombineParams& params, DType dtype, int64_t batch) {
  const LaunchShape shape{.grid = dim3(grid_extent(params.plan.shape.num_tiles),
                                       grid_extent(params.num_heads), grid_extent(batch)),
                          .block = dim3(kThreads)};
  return dtype == DType::kBF16 ? launch(at, combine_kernel<__nv_bfloat16>, shape, params)
                               : launch(at, combine_kernel<__half>, shape, params);
}

}  // namespace vsa::cuda
