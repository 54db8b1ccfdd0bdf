// The producer of the fine kernel: one warp that walks the schedule and has blocks of q, k and v
// copied into shared memory. Device-only.
#pragma once

#include "src/cuda/sm90/fine_params.h"
#include "src/cuda/sm90/ptx.h"

namespace vsa::cuda::sm90 {

inline constexpr uint32_t kWarpsPerConsumer = 4;

template <int kHeadDim>
class Producer {
 public:
  using Smem = FineSmem<kHeadDim>;

  __device__ __forceinline__ Producer(const FineParams& params, Smem& smem)
      : p_(params), s_(smem), lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run() {
    uint32_t parity = 0;  // of the q barriers
    for (int32_t item = static_cast<int32_t>(blockIdx.x); item < p_.num_items;
         item += static_cast<int32_t>(gridDim.x), parity ^= 1) {
      const int32_t pair = item % p_.num_pairs;
      const int32_t head_idx = item / p_.num_pairs;
      const int32_t b = head_idx / p_.num_heads;
      const int32_t h = head_idx % p_.num_heads;
      const ScheduleHead head = p_.heads[item];
      load_q(pair, b * p_.q_step.batch + h * p_.q_step.head, head, parity);

      const int32_t kv_head = h / p_.group_size;
      k_head_ = b * p_.k_step.batch + kv_head * p_.k_step.head;
      v_head_ = b * p_.v_step.batch + kv_head * p_.v_step.head;
      const uint32_t* entries = p_.entries + item * p_.entry_pitch;
      const uint32_t* common = entries;
      for (int32_t i = 0; i < head.num_common; ++i) load_step(common, i % 2, false);
      const uint32_t* own[2] = {entries + head.begin_own[0], entries + head.begin_own[1]};
      const int32_t most = max(head.num_own[0], head.num_own[1]);
      for (int32_t i = 0; i < most; ++i) {
        if (i < head.num_own[0]) load_step(own[0], 0, true);
        if (i < head.num_own[1]) load_step(own[1], 1, true);
      }
    }
  }

 private:
  __device__ __forceinline__ void load_q(int32_t pair, int32_t q_head, const ScheduleHead& head,
                                         uint32_t parity) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t full = smem_address(&s_.full_q[half]);
      const int32_t idx = pair * 2 + half;
      Block block{0, 0, 0, 0};  // without rows: the second of a last odd block
      if (idx < p_.q_plan.num_blocks()) block = p_.q_blocks[idx];
      barrier_wait(smem_address(&s_.empty_q[half]), parity ^ 1);
      if (lane_ == 0) {
        s_.head[half] = head;
        s_.q_block[half] = block;
        barrier_expect(full, copied_bytes(block));
        copy_block(p_.q, block, smem_address(s_.q[half]), 0, q_head, full);
        barrier_arrive(full);
      }
      __syncwarp();
    }
  }

  /// Fills the next slot of the ring with the step at `entry`, which moves on to the next one.
  /// @param exclusive  only the consumer with the ring's number reads the slot; the other's
  ///                   arrivals are made here
  __device__ __forceinline__ void load_step(const uint32_t*& entry, int ring, bool exclusive) {
    const uint32_t use = ring == 0 ? uses_[0]++ : uses_[1]++;
    const uint32_t slot = use % Smem::kStages;
    const uint32_t free_parity = (use / Smem::kStages & 1U) ^ 1U;
    const uint32_t* const first = entry;

    const uint32_t full_k = smem_address(&s_.full_k[ring][slot]);
    const uint32_t empty_k = smem_address(&s_.empty_k[ring][slot]);
    barrier_wait(empty_k, free_parity);
    const uint64_t bits = copy_step(entry, p_.k, smem_address(s_.k[ring][slot]), k_head_, full_k);
    if (lane_ == 0) {
      s_.row_bits[ring][slot] = bits;
      if (exclusive) barrier_arrive(empty_k, kWarpsPerConsumer);
      barrier_arrive(full_k);
    }

    const uint32_t full_v = smem_address(&s_.full_v[ring][slot]);
    const uint32_t empty_v = smem_address(&s_.empty_v[ring][slot]);
    const uint32_t* again = first;
    barrier_wait(empty_v, free_parity);
    copy_step(again, p_.v, smem_address(s_.v[ring][slot]), v_head_, full_v);
    if (bits != ~uint64_t{0}) zero_other_rows(smem_address(s_.v[ring][slot]), bits);
    if (lane_ == 0) {
      if (exclusive) barrier_arrive(empty_v, kWarpsPerConsumer);
      barrier_arrive(full_v);
    }
    __syncwarp();
  }

  /// Copies the blocks of one step; returns which rows they fill.
  __device__ __forceinline__ uint64_t copy_step(const uint32_t*& entry, const BoxMaps& maps,
                                                uint32_t to, int32_t head, uint32_t full) {
    uint64_t bits = 0;
    uint32_t e = 0;
    do {
      e = __ldg(entry++);
      const int4 raw = __ldg(reinterpret_cast<const int4*>(p_.kv_blocks + ScheduleEntry::block(e)));
      const Block block{raw.x, raw.y, raw.z, static_cast<uint32_t>(raw.w)};
      const int32_t row = ScheduleEntry::row(e);
      bits |= row_bits(row, block.len());
      if (lane_ == 0) {
        barrier_expect(full, copied_bytes(block));
        copy_block(maps, block, to, row, head, full);
      }
    } while ((e & ScheduleEntry::kLast) == 0);
    return bits;
  }

  __device__ __forceinline__ static uint32_t copied_bytes(const Block& block) {
    return static_cast<uint32_t>(block.len() * kRowBytes * Smem::kSlabs);
  }

  /// Copies the block's valid rows to rows `row` and following of the tile at `to`: a cuboid in one
  /// box, a run in boxes of powers of two, so that nothing beyond its end is read.
  __device__ __forceinline__ static void copy_block(const BoxMaps& maps, const Block& block,
                                                    uint32_t to, int32_t row, int32_t head,
                                                    uint32_t full) {
    to += static_cast<uint32_t>(row * kRowBytes);
    if (block.len() == 0) return;
    if (block.kind() != Block::kRun) {
      copy_slabs(&maps.box[block.kind()], {0, block.w, block.h, block.f, head}, to, full);
      return;
    }
    int32_t w = block.w;
#pragma unroll 1
    for (int i = 6; i >= 0; --i) {
      if ((block.len() >> i & 1) == 0) continue;
      copy_slabs(&maps.box[kRunBox + i], {0, w, 0, 0, head}, to, full);
      w += 1 << i;
      to += static_cast<uint32_t>(kRowBytes << i);
    }
  }

  __device__ __forceinline__ static void copy_slabs(const CUtensorMap* map, Box at, uint32_t to,
                                                    uint32_t full) {
#pragma unroll
    for (int slab = 0; slab < Smem::kSlabs; ++slab) {
      at.d = slab * kSlabElements;
      copy_box(to + slab * kSlabBytes, map, at, full);
    }
  }

  /// Probabilities of rows without a token are 0, but 0 * NaN is NaN, and what lies there is old.
  __device__ __forceinline__ void zero_other_rows(uint32_t tile, uint64_t bits) const {
    for (uint32_t row = lane_; row < kBlockTokens; row += 32) {
      if ((bits >> row & 1U) != 0) continue;
#pragma unroll
      for (int slab = 0; slab < Smem::kSlabs; ++slab) {
        for (uint32_t piece = 0; piece < kRowBytes; piece += 16) {
          store_zero16(tile + slab * kSlabBytes + row * kRowBytes + piece);
        }
      }
    }
    fence_async_shared();
    __syncwarp();
  }

  const FineParams& p_;
  Smem& s_;
  const uint32_t lane_;
  int32_t k_head_ = 0, v_head_ = 0;
  uint32_t uses_[2] = {0, 0};
};

}  // namespace vsa::cuda::sm90
