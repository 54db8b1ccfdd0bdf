// Parameters of the two backward fine kernels, and their shared memory. Host and device.
//
// Both kernels have one design. There are two sides, queries (tensors q, dout) and keys (k, v). A
// consumer warpgroup *owns* a block of 64 tokens of one side: queries in the dq kernel, keys in the
// dk, dv kernel. The blocks of the other side that its list names are *streamed* through shared
// memory. An *item* is the block, or two blocks, that the consumers of one stream own.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "src/cuda/fine/lut_t.h"
#include "src/cuda/fine/query_statistics.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/support/rows.h"
#include "vsa/lut.h"

namespace vsa::cuda::sm90 {

/// One side: its two tensors and their plan.
struct BackwardSide {
  BoxMaps maps[2];  // tensor maps of q and dout, or of k and v
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
  int32_t num_items;   // batch * heads * blocks of the owned side; below 2^30
  int32_t* next_item;  // the queue: how many blocks were taken from it; 0 at the start

  float scale;
  float scale_log2;                   // scale * log2(e)
  const QueryStatistics* statistics;  // [batch * heads of q, blocks of q]

  Rows dq, dk, dv;
  const float *dq_pooled, *dk_pooled, *dv_pooled;  // gradients of pooled tensors; null: none
};

/// What the producer of a stream tells its consumers about an item.
template <int kConsumers>
struct BackwardItem {
  Block block[kConsumers];  // the owned block of each consumer
  int32_t idx;              // of block[0] among those of all heads; -1: there are no more items
  int32_t has_steps;        // 0: the list is empty, and nothing will be streamed
};

/// A step of 64 streamed rows: which rows hold a token, and whether it is the last of the item.
struct alignas(16) BackwardStep {
  uint64_t row_bits;
  uint32_t is_last;
};

/// Shared memory of both kernels; it begins at a multiple of 1 KiB.
///
/// A CTA has two consumers. Either each has its own stream (kConsumers = 1), or both share one
/// (kConsumers = 2), which is possible where they own blocks of the same tile, whose list is the
/// same.
///   head_dim 128:  owned 2 consumers x 2 tensors x 16 KiB; in each stream 3 slots of the first
///                  tensor and 2 of the second, of 16 KiB (shared stream: 5 and 5): 224 of 227 KiB
///   head_dim  64:  owned 2 x 2 x 8 KiB; in each stream 6 and 5 slots of 8 KiB (11 and 11): 208 KiB
/// The first streamed tensor (k, or q) has more slots than the second (v, or dout), because it is
/// used twice: for s, and one step later for dq, or dk.
///
/// Barriers of a stream, and who arrives (x: kConsumers):
///   full_owned          1 by the producer, and the bytes: `item` and the owned blocks are there
///   empty_owned         4 x, each consumer warp: they have been read
///   full_first/second   1 by the producer, and the bytes: the slot may be read
///   empty_first/second  4 x, each consumer warp, in the dq kernel; 128 x, each lane, in the dk, dv
///                       kernel (fine_dkv_consumer.h): the slot may be overwritten
template <int kHeadDim, int kConsumers>
struct BackwardSmem {
  static_assert(kConsumers == 1 || kConsumers == 2, "consumers of a stream");
  static constexpr int kStreams = 2 / kConsumers;
  static constexpr int kSlabs = kHeadDim / kSlabElements;
  static constexpr int kBufferBytes = kSlabs * kSlabBytes;
  static constexpr uint32_t kStages = kHeadDim == 128 ? 5 : 11;  // of both tensors / consumer
  static constexpr uint32_t kFirstStages = kConsumers == 2 ? kStages : (kStages + 1) / 2;
  static constexpr uint32_t kSecondStages = kConsumers == 2 ? kStages : kStages / 2;

  struct Buffers {
    uint8_t owned[kConsumers][2][kBufferBytes];  // q and dout, or k and v, of each consumer
    uint8_t first[kFirstStages][kBufferBytes];
    uint8_t second[kSecondStages][kBufferBytes];
  };
  struct Stream {
    float minus_lse_log2[kFirstStages][kBlockTokens];  // of streamed queries; not used in dq
    float delta[kSecondStages][kBlockTokens];
    BackwardStep step[kFirstStages];
    BackwardItem<kConsumers> item[2];  // of even and odd items
    // State of the producer, which has few registers.
    int32_t head[2];  // coordinates of the current head in the two tensor maps
    int32_t next_item;
    uint32_t item_parity;
    uint64_t full_owned, empty_owned;
    uint64_t full_first[kFirstStages], empty_first[kFirstStages];
    uint64_t full_second[kSecondStages], empty_second[kSecondStages];
  };

  Buffers buffers[kStreams];
  Stream stream[kStreams];

  static constexpr int kAlignment = 1024;
};

/// A slot of a ring of kStages slots and the parity of its current phase, in one register.
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
