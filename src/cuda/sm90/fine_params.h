// What the fine kernel is given, and how it divides shared memory. Host and device.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "src/cuda/rows.h"
#include "src/cuda/schedule.h"
#include "src/cuda/sm90/descriptor.h"

namespace vsa::cuda::sm90 {

/// Boxes of one tensor: 0 to 7 cuboids by Block::kind, 8 + i runs of 2^i rows.
inline constexpr int kNumBoxes = 15;
inline constexpr int kRunBox = 8;
struct BoxMaps {
  CUtensorMap box[kNumBoxes];
};

/// Coordinate of head (b, h) on a map's last axis: b * batch + h * head.
struct HeadStep {
  int32_t batch = 0;
  int32_t head = 0;
};

struct FineParams {
  BoxMaps q, k, v;
  HeadStep q_step, k_step, v_step;

  const Block* q_blocks;   // [num_q_blocks]
  const Block* kv_blocks;  // [num_kv_blocks]
  PlanShape q_plan;
  const ScheduleHead* heads;  // [batch * num_heads * num_pairs]
  const uint32_t* entries;    // [batch * num_heads * num_pairs, entry_pitch]
  int64_t entry_pitch;

  int32_t num_pairs;  // of query blocks; one block may be left over
  int32_t num_heads;
  int32_t group_size;
  int32_t num_items;  // batch * num_heads * num_pairs

  float scale_log2;  // |scale| * log2(e), not 0
  uint32_t q_sign;   // 0x80008000 if scale is negative: flips q instead

  Rows out;
  Rows lse;                 // f32; data may be null
  ConstRows gate;           // data null: gate_coarse is the constant
  const float* coarse_out;  // [batch * num_heads, num_q_tiles, head_dim]; null: no coarse branch
  float gate_fine;
  float gate_coarse;
};

inline constexpr uint32_t kWarpsPerConsumer = 4;

/// What a consumer must know of an item besides its q.
struct alignas(16) ItemHalf {
  int32_t num_common = 0;
  int32_t num_own[2] = {0, 0};
  int32_t item = 0;
  Block block;
};

/// Shared memory of the kernel, from a multiple of 1 KiB on.
///   head_dim 128:  q 2 x 16 KiB, 2 rings of 3 slots of k 16 KiB + v 16 KiB: 224 KiB of 227
///   head_dim  64:  q 2 x  8 KiB, 2 rings of 6 slots of k  8 KiB + v  8 KiB: 208 KiB
template <int kHeadDim>
struct FineSmem {
  static constexpr int kSlabs = kHeadDim / kSlabElements;
  static constexpr int kBufferBytes = kSlabs * kSlabBytes;
  static constexpr int kStages = kHeadDim == 128 ? 3 : 6;  // of each of two rings

  uint8_t q[2][kBufferBytes];
  uint8_t k[2][kStages][kBufferBytes];
  uint8_t v[2][kStages][kBufferBytes];
  uint32_t notes[3 * kWarpsPerConsumer];  // a consuming warp's to itself
  uint64_t row_bits[2][kStages];          // rows of the slot that hold tokens
  ItemHalf item[2][2];                    // of even and odd items, one for each consumer
  // full: one arrival of the producer, and the bytes. empty: one arrival of each consuming warp.
  uint64_t full_k[2][kStages], full_v[2][kStages];
  uint64_t empty_k[2][kStages], empty_v[2][kStages];
  uint64_t full_q[2], empty_q[2];
  uint64_t meet;  // both consumers have seen all slots of the item

  static constexpr int kAlignment = 1024;
};

}  // namespace vsa::cuda::sm90
