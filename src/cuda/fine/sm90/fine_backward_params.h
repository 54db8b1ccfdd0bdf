// What the kernels of the fine backward are given, and how they divide shared memory. Host and
// device.
//
// Both are one design: a warpgroup owns a block of 64 tokens of one side (queries for dq, keys for
// dk and dv), and the blocks of the other side that its list names stream past it.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "src/cuda/fine/lut_t.h"
#include "src/cuda/fine/query_statistics.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/support/rows.h"
#include "vsa/lut.h"

namespace vsa::cuda::sm90 {

/// Queries or keys: their plan, and two tensors by it.
struct BackwardSide {
  BoxMaps maps[2];  // of q and dout, or of k and v
  HeadStep step[2];
  const Block* blocks;      // [plan.num_blocks()]
  const int32_t* tile_len;  // [plan.num_tiles]
  PlanShape plan;
  int32_t num_heads;
};

struct FineBackwardParams {
  BackwardSide q, kv;
  ConstLut lut;
  LutT lut_t;
  int32_t group_size;
  int32_t num_items;   // batch * heads * blocks of the side that is owned; below 2^30
  int32_t* next_item;  // 0 at first; the queue of those that are not given out yet

  float scale;
  float scale_log2;                   // scale * log2(e)
  const QueryStatistics* statistics;  // [batch * heads of q, blocks of q]

  Rows dq, dk, dv;
  const float *dq_pooled, *dk_pooled, *dv_pooled;  // null: none
};

/// An item as its consumers see it: one block for each.
template <int kConsumers>
struct BackwardItem {
  Block block[kConsumers];
  int32_t idx;        // of the first block, in all heads; -1: there are no more items
  int32_t has_steps;  // 0: no block of the other side is on the list
};

/// A step: what of its 64 rows are tokens, and whether it is the item's last.
struct alignas(16) BackwardStep {
  uint64_t row_bits;
  uint32_t is_last;
};

/// Shared memory of both kernels, from a multiple of 1 KiB on. Two consumers have a stream each, or
/// share one if they own blocks of one tile: then they need the same.
///   head_dim 128:  own 2 x 2 x 16 KiB; first 3 x 16 KiB and second 2 x 16 KiB a stream, shared 5
///                  and 5: 224 KiB of 227
///   head_dim  64:  own 2 x 2 x 8 KiB; first 6 x 8 KiB and second 5 x 8 KiB a stream, shared 11 and
///                  11: 208 KiB
/// The first tensor of the other side (q, or k) is needed longer than the second (dout, or v).
template <int kHeadDim, int kConsumers>
struct BackwardSmem {
  static_assert(kConsumers == 1 || kConsumers == 2, "consumers of a stream");
  static constexpr int kStreams = 2 / kConsumers;
  static constexpr int kSlabs = kHeadDim / kSlabElements;
  static constexpr int kBufferBytes = kSlabs * kSlabBytes;
  static constexpr uint32_t kStages = kHeadDim == 128 ? 5 : 11;  // of both tensors and half of both
  static constexpr uint32_t kFirstStages = kConsumers == 2 ? kStages : (kStages + 1) / 2;
  static constexpr uint32_t kSecondStages = kConsumers == 2 ? kStages : kStages / 2;

  struct Buffers {
    uint8_t own[kConsumers][2][kBufferBytes];  // of each consumer: q and dout, or k and v
    uint8_t first[kFirstStages][kBufferBytes];
    uint8_t second[kSecondStages][kBufferBytes];
  };
  struct Stream {
    float minus_lse_log2[kFirstStages][kBlockTokens];  // of queries that stream
    float delta[kSecondStages][kBlockTokens];
    BackwardStep step[kFirstStages];
    BackwardItem<kConsumers> item[2];  // of even and odd items
    // The producer's own, for want of registers.
    int32_t head[2];  // coordinates of the head that streams
    int32_t next_item;
    uint32_t item_parity;
    // full: one arrival of the producer, and the bytes. empty: one of each consuming warp, or, of
    // slots of queries, of each of its lanes (fine_dkv_consumer.h).
    uint64_t full_own, empty_own;
    uint64_t full_first[kFirstStages], empty_first[kFirstStages];
    uint64_t full_second[kSecondStages], empty_second[kSecondStages];
  };

  Buffers buffers[kStreams];
  Stream stream[kStreams];

  static constexpr int kAlignment = 1024;
};

/// A slot of a ring of kStages, and the parity of its phase; in one register.
template <uint32_t kStages>
struct RingSlot {
  uint32_t bits = 0;
  VSA_HOST_DEVICE uint32_t idx() const { return bits >> 1; }
  VSA_HOST_DEVICE uint32_t parity() const { return bits & 1U; }
  VSA_HOST_DEVICE void advance() {
    bits += 2;
    if (bits >= 2 * kStages) bits = parity() ^ 1U;
  }
};

}  // namespace vsa::cuda::sm90
