// combine, tile, untile: one CTA a tile, 16 bytes of a row a thread.
#include "src/cuda/combine.h"
#include "src/cuda/half_type.h"
#include "src/cuda/launch.h"
#include "src/cuda/tile_positions.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;

/// grid of all kernels here: x tiles, y heads, z batch
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

/// Copies rows as 16-byte pieces, whatever the 16-bit type. A slot is a place in tile order.
template <bool kToTileOrder>
__global__ void __launch_bounds__(kThreads)
    reorder_kernel(const __grid_constant__ ReorderParams p) {
  __shared__ int32_t positions[kMaxTileRows];
  const int tile = static_cast<int>(blockIdx.x);
  const int rows = tile_positions(p.plan, tile, positions);
  const int len = p.plan.tile_len[tile];
  const int tile_tokens = p.plan.shape.tile_tokens;
  const int pieces = p.head_dim / kElements;
  const uint16_t* from = static_cast<const uint16_t*>(p.from.data) + head_offset(p.from);
  uint16_t* to = static_cast<uint16_t*>(p.to.data) + head_offset(p.to);
  const int written = kToTileOrder ? tile_tokens : rows;
  for (int i = static_cast<int>(threadIdx.x); i < written * pieces; i += kThreads) {
    const int row = i / pieces;
    const int column = i % pieces * kElements;
    const int64_t slot = static_cast<int64_t>(tile) * tile_tokens + row;
    const int64_t position = row < rows ? positions[row] : 0;
    uint4 piece{0, 0, 0, 0};
    if (row < len) {
      piece = __ldg(reinterpret_cast<const uint4*>(
          from + (kToTileOrder ? position : slot) * p.from.seq + column));
    }
    *reinterpret_cast<uint4*>(to + (kToTileOrder ? slot : position) * p.to.seq + column) = piece;
  }
}

template <class Params>
LaunchShape shape_of(const Params& params, int64_t batch, cudaStream_t stream) {
  return {.grid = dim3(grid_extent(params.plan.shape.num_tiles), grid_extent(params.num_heads),
                       grid_extent(batch)),
          .block = dim3(kThreads),
          .stream = stream};
}

}  // namespace

Status run_combine(std::string_view operation, const CombineParams& params, DType dtype,
                   int64_t batch, cudaStream_t stream) {
  const LaunchShape shape = shape_of(params, batch, stream);
  return dtype == DType::kBF16 ? launch(operation, combine_kernel<__nv_bfloat16>, shape, params)
                               : launch(operation, combine_kernel<__half>, shape, params);
}

Status run_tile(const ReorderParams& params, int64_t batch, cudaStream_t stream) {
  return launch("tile", reorder_kernel<true>, shape_of(params, batch, stream), params);
}
Status run_untile(const ReorderParams& params, int64_t batch, cudaStream_t stream) {
  return launch("untile", reorder_kernel<false>, shape_of(params, batch, stream), params);
}

}  // namespace vsa::cuda
