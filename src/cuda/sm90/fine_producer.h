// The producers of the fine kernel: four warps, each of which keeps the k or the v slots of one
// ring full. Device-only.
//
// They share nothing but the schedule, so that a slot that frees late holds up no other stream.
// Each lane reads one entry and its block 32 and more entries before they are used: no copy waits
// for a load from global memory.
#pragma once

#include <cstddef>

#include "src/cuda/sm90/copy_block.h"
#include "src/cuda/sm90/fine_params.h"
#include "src/cuda/sm90/ptx.h"

namespace vsa::cuda::sm90 {

/// @tparam kValues  whether this is a stream of v, else of k and of q
template <int kHeadDim, bool kValues>
class Producer {
 public:
  using Smem = FineSmem<kHeadDim>;
  using Copy = BlockCopy<Smem::kSlabs>;

  __device__ __forceinline__ Producer(const FineParams& params, Smem& smem, uint32_t ring)
      : p_(params),
        s_(smem),
        lane_(threadIdx.x % 32),
        ring_(ring),
        buffers_(smem_address(kValues ? smem.v[ring] : smem.k[ring])),
        full_(smem_address(kValues ? smem.full_v[ring] : smem.full_k[ring])),
        empty_(smem_address(kValues ? smem.empty_v[ring] : smem.empty_k[ring])) {}

  __device__ __forceinline__ void run() {
    const HeadStep& step = kValues ? p_.v_step : p_.k_step;
    const auto stride = static_cast<int32_t>(gridDim.x);
    uint32_t parity = 0;  // of the q barriers
    auto item = static_cast<int32_t>(blockIdx.x);
    int32_t next_head = head_word(item);
    for (; item < p_.num_items; item += stride, parity ^= 1) {
      const int32_t head = next_head;
      if (item + stride < p_.num_items) next_head = head_word(item + stride);
      const int32_t head_idx = item / p_.num_pairs;
      const int32_t b = head_idx / p_.num_heads;
      const int32_t h = head_idx % p_.num_heads;
      if constexpr (!kValues) {
        load_q(item, b * p_.q_step.batch + h * p_.q_step.head, head, parity);
      }
      head_ = b * step.batch + h / p_.group_size * step.head;
      feed(p_.entries + item * p_.entry_pitch, head);
    }
  }

 private:
  /// Word `lane` of an item's head; lanes share it by shuffles.
  static constexpr int kHeadWords = sizeof(ScheduleHead) / 4;
  static constexpr int kBeginOwn = offsetof(ScheduleHead, begin_own) / 4;
  static_assert(offsetof(ScheduleHead, end) / 4 == kBeginOwn + 2);
  __device__ __forceinline__ int32_t head_word(int32_t item) const {
    return __ldg(reinterpret_cast<const int32_t*>(p_.heads + item) + lane_ % kHeadWords);
  }

  /// Block `ring_` of the item's pair, and what its consumer must know of the item.
  __device__ __forceinline__ void load_q(int32_t item, int32_t q_head, int32_t head,
                                         uint32_t parity) {
    const uint32_t half = ring_;
    const uint32_t full = smem_address(&s_.full_q[half]);
    const int32_t idx = item % p_.num_pairs * 2 + static_cast<int32_t>(half);
    Block block{0, 0, 0, 0};  // without rows: the second of a last odd block
    if (idx < p_.q_plan.num_blocks()) block = p_.q_blocks[idx];
    constexpr int kNumOwn = offsetof(ScheduleHead, num_own) / 4;
    const ItemHalf of{
        .num_common = __shfl_sync(~0U, head, 0),
        .num_own = {__shfl_sync(~0U, head, kNumOwn), __shfl_sync(~0U, head, kNumOwn + 1)},
        .item = item,
        .block = block};
    barrier_wait(smem_address(&s_.empty_q[half]), parity ^ 1);
    if (lane_ == 0) {
      s_.item[parity][half] = of;
      barrier_expect(full, Copy::bytes(block));
      Copy::start(p_.q, block, smem_address(s_.q[half]), 0, q_head, full);
      barrier_arrive(full);
    }
    __syncwarp();
  }

  /// All steps of one item in this ring: of the common ones every second, then those of the
  /// consumer with the ring's number.
  __device__ __forceinline__ void feed(const uint32_t* entries, int32_t head) {
    const int32_t num_common = __shfl_sync(~0U, head, kBeginOwn);  // entries
    const int32_t begin = __shfl_sync(~0U, head, kBeginOwn + ring_);
    const int32_t num = num_common + __shfl_sync(~0U, head, kBeginOwn + 1 + ring_) - begin;
    const auto entry_at = [&](int32_t i) {
      i += static_cast<int32_t>(lane_);
      return i < num ? __ldg(entries + (i < num_common ? i : i - num_common + begin)) : 0U;
    };
    const auto block_of = [&](uint32_t entry) {
      return __ldg(reinterpret_cast<const int4*>(p_.kv_blocks + ScheduleEntry::block(entry)));
    };
    if (num == 0) return;
    uint32_t entry = entry_at(0);
    uint32_t next_entry = entry_at(32);
    int4 block = block_of(entry);
    uint32_t step = 0;
#pragma unroll 1
    for (int32_t base = 0; base < num; base += 32) {
      const int4 next_block = block_of(next_entry);
      const uint32_t after = entry_at(base + 64);
      const int32_t count = min(32, num - base);
#pragma unroll 1
      for (int32_t i = 0; i < count; ++i) {
        const uint32_t e = __shfl_sync(~0U, entry, i);
        const bool exclusive = base + i >= num_common;
        if (exclusive || step % 2 == ring_) {
          const Block of{__shfl_sync(~0U, block.x, i), __shfl_sync(~0U, block.y, i),
                         __shfl_sync(~0U, block.z, i),
                         static_cast<uint32_t>(__shfl_sync(~0U, block.w, i))};
          load(e, of, exclusive);
        }
        if ((e & ScheduleEntry::kLast) != 0) ++step;
      }
      entry = next_entry;
      next_entry = after;
      block = next_block;
    }
  }

  /// One block of the step that is being loaded.
  /// @param exclusive  only the consumer with the ring's number reads the slot; the other's
  ///                   arrivals are made here
  __device__ __forceinline__ void load(uint32_t entry, const Block& block, bool exclusive) {
    const uint32_t full = full_ + slot_ * 8;
    const uint32_t empty = empty_ + slot_ * 8;
    const uint32_t buffer = buffers_ + slot_ * Smem::kBufferBytes;
    if (bits_ == 0) barrier_wait(empty, parity_ ^ 1);
    const int32_t row = ScheduleEntry::row(entry);
    bits_ |= row_bits(row, block.len());
    const bool is_last = (entry & ScheduleEntry::kLast) != 0;
    if (is_last && kValues && bits_ != ~uint64_t{0}) {
      // Probabilities of rows without a token are 0, but 0 * NaN is NaN, and what lies there is
      // old.
      Copy::zero_other_rows(buffer, bits_);
    }
    if (lane_ == 0) {
      barrier_expect(full, Copy::bytes(block));
      Copy::start(kValues ? p_.v : p_.k, block, buffer, row, head_, full);
      if (is_last) {
        if (!kValues) s_.row_bits[ring_][slot_] = bits_;
        if (exclusive) barrier_arrive(empty, kWarpsPerConsumer);
        barrier_arrive(full);
      }
    }
    __syncwarp();
    if (!is_last) return;
    bits_ = 0;
    if (++slot_ == Smem::kStages) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }

  const FineParams& p_;
  Smem& s_;
  const uint32_t lane_, ring_;
  const uint32_t buffers_, full_, empty_;  // in shared memory, of slot 0
  int32_t head_ = 0;
  uint32_t slot_ = 0, parity_ = 0;
  uint64_t bits_ = 0;  // rows of the slot that hold a token; 0: no step is begun
};

}  // namespace vsa::cuda::sm90
