// Gathers the rows of a token tensor into compact order.
//
//   x[position of each token] -> copy[place in compact order]
//
// A thread copies kTogether pieces of 16 bytes, whose loads are in flight together; adjacent
// threads copy adjacent pieces of one token, of all its heads, which are adjacent in BSHD tensors.
// No shared memory. The least traffic for [1, 12, 32760, 128] in bf16: one read and one write, 201
// MB, which take 0.047 ms at 4.24 TB/s.
#include "src/cuda/support/launch.h"
#include "src/cuda/tile/compact.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;  // of a piece, 16 bytes
constexpr int kTogether = 4;

/// grid: x pieces of an item / 1024, y batch
__global__ void __launch_bounds__(kThreads)
    compact_kernel(const __grid_constant__ CompactParams p) {
  const int pieces_per_head = p.head_dim / kElements;
  const int pieces_per_token = p.num_heads * pieces_per_head;
  const int64_t num_pieces = int64_t{p.num_tokens} * pieces_per_token;
  const int64_t first = int64_t{blockIdx.x} * kThreads * kTogether + threadIdx.x;
  const uint16_t* const from =
      static_cast<const uint16_t*>(p.from.data) + blockIdx.y * p.from.batch;
  uint16_t* const to = static_cast<uint16_t*>(p.to.data) + blockIdx.y * p.to.batch;
  uint4 raw[kTogether];
  int64_t place[kTogether];
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    const int64_t piece = first + k * kThreads;
    place[k] = -1;
    if (piece >= num_pieces) break;
    const auto token = static_cast<int>(piece / pieces_per_token);
    const auto rest = static_cast<int>(piece % pieces_per_token);
    const int head = rest / pieces_per_head;
    const int column = rest % pieces_per_head * kElements;
    place[k] = token * p.to.seq + head * p.to.head + column;
    raw[k] = __ldg(reinterpret_cast<const uint4*>(from + p.tokens[token] * p.from.seq +
                                                  head * p.from.head + column));
  }
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    if (place[k] >= 0) *reinterpret_cast<uint4*>(to + place[k]) = raw[k];
  }
}

}  // namespace

Status run_compact(const CallSite& at, const CompactParams& params, int64_t batch) {
  const int64_t pieces =
      int64_t{params.num_tokens} * params.num_heads * (params.head_dim / kElements);
  return launch(at, compact_kernel,
                {.grid = dim3(grid_extent(pieces, kThreads * kTogether), grid_extent(batch)),
                 .block = dim3(kThreads)},
                params);
}

}  // namespace vsa::cuda
