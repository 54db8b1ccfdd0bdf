// The producers of the fine kernel: warps that keep the k slots, the v slots or both of one ring
// full, and the ring's q. Device-only.
//
// They share the schedule and, where consumers share rings, which unit is next (fine_queue.h). Each
// lane reads one entry and its block 32 and more entries before they are used: no copy waits for a
// load from global memory.
#pragma once

#include <cstddef>
#include <type_traits>

#include "src/cuda/fine/sm90/copy_block.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_queue.h"
#include "src/cuda/fine/sm90/ptx.h"

namespace vsa::cuda::sm90 {

/// The k or the v slots of one ring, in the order in which they are filled.
template <int kHeadDim, bool kValues>
class Stream {
 public:
  using Smem = FineSmem<kHeadDim>;
  using Copy = BlockCopy<Smem::kSlabs>;

  __device__ __forceinline__ Stream(const FineParams& params, Smem& smem, uint32_t ring)
      : p_(params), s_(smem), ring_(ring) {}

  __device__ __forceinline__ void begin(int32_t batch, int32_t kv_head) {
    const HeadStep& step = kValues ? p_.v_step : p_.k_step;
    head_ = batch * step.batch + kv_head * step.head;
  }

  /// One block of the step that is being loaded.
  /// @param exclusive  of two consumers only one reads the slot: the other's arrivals are made here
  __device__ __forceinline__ void load(uint32_t entry, const Block& block, bool exclusive) {
    const uint32_t full = smem_address(&(kValues ? s_.full_v : s_.full_k)[ring_][slot_]);
    const uint32_t empty = smem_address(&(kValues ? s_.empty_v : s_.empty_k)[ring_][slot_]);
    const uint32_t buffer = smem_address((kValues ? s_.v : s_.k)[ring_][slot_]);
    if (bits_ == 0) barrier_wait(empty, parity_ ^ 1);
    const int32_t row = ScheduleEntry::row(entry);
    bits_ |= row_bits(row, block.len());
    const bool is_last = (entry & ScheduleEntry::kLast) != 0;
    if (is_last && kValues && bits_ != ~uint64_t{0}) {
      // Probabilities of rows without a token are 0, but 0 * NaN is NaN, and what lies there is
      // old.
      Copy::zero_other_rows(buffer, bits_, threadIdx.x % 32);
    }
    if (threadIdx.x % 32 == 0) {
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

 private:
  const FineParams& p_;
  Smem& s_;
  const uint32_t ring_;
  int32_t head_ = 0;
  uint32_t slot_ = 0, parity_ = 0;
  uint64_t bits_ = 0;  // rows of the slot that hold a token; 0: no step is begun
};

/// @tparam kKeys    whether it loads k and q
/// @tparam kValues  whether it loads v
template <int kHeadDim, bool kKeys, bool kValues>
class Producer {
 public:
  using Smem = FineSmem<kHeadDim>;
  using Copy = BlockCopy<Smem::kSlabs>;
  using Unit = sm90::Unit<kHeadDim>;
  using Units = std::conditional_t<Unit::kPaired, UnitQueue, UnitsInTurn>;
  static constexpr bool kPaired = Unit::kPaired;

  __device__ __forceinline__ Producer(const FineParams& params, Smem& smem, uint32_t ring)
      : p_(params),
        s_(smem),
        lane_(threadIdx.x % 32),
        ring_(ring),
        keys_(params, smem, ring),
        values_(params, smem, ring) {}

  __device__ __forceinline__ void run() {
    const int32_t num_units = Unit::count(p_.num_items, num_whole());
    Units units(p_, s_, ring_, kKeys && ring_ == 0);
    int32_t unit = units.unit();
    int32_t head = unit < num_units ? head_word(unit) : 0;
    while (unit < num_units) {
      const int32_t item = Unit::item(unit, num_whole());
      const int32_t head_idx = item / p_.num_pairs;
      const int32_t b = head_idx / p_.num_heads;
      const int32_t h = head_idx % p_.num_heads;
      const bool is_whole = Unit::is_whole(unit, num_whole());
      const int half = is_whole ? static_cast<int>(ring_) : Unit::half(unit, num_whole());
      if constexpr (kKeys) {
        load_q(unit, half, b * p_.q_step.batch + h * p_.q_step.head, head, units.parity());
        keys_.begin(b, h / p_.group_size);
      }
      if constexpr (kValues) values_.begin(b, h / p_.group_size);
      const int32_t next = units.next();
      const int32_t next_head = next < num_units ? head_word(next) : 0;
      feed(p_.entries + item * p_.entry_pitch, is_whole, half, head);
      unit = next;
      head = next_head;
    }
    if constexpr (kPaired && kKeys) {
      barrier_wait(smem_address(&s_.empty_q[ring_]), units.parity() ^ 1);
      announce({}, units.parity());
    }
  }

 private:
  __device__ __forceinline__ int32_t num_whole() const { return kPaired ? p_.num_whole : 0; }

  /// Whether the ring's consumer does: of a single half the one with its number.
  __device__ __forceinline__ bool works_on(int half) const {
    return !kPaired || half == static_cast<int>(ring_);
  }

  /// Word `lane` of an item's head; lanes share it by shuffles.
  static constexpr int kHeadWords = sizeof(ScheduleHead) / 4;
  static constexpr int kNumOwn = offsetof(ScheduleHead, num_own) / 4;
  static constexpr int kBeginOwn = offsetof(ScheduleHead, begin_own) / 4;
  static constexpr int kHasShort = offsetof(ScheduleHead, has_short) / 4;
  static constexpr int kQBlock = offsetof(ScheduleHead, q_block) / 4;
  static_assert(offsetof(ScheduleHead, end) / 4 == kBeginOwn + 2);
  __device__ __forceinline__ int32_t head_word(int32_t unit) const {
    return static_cast<int32_t>(
        load_global(reinterpret_cast<const uint32_t*>(p_.heads + Unit::item(unit, num_whole())) +
                    lane_ % kHeadWords));
  }

  /// A half of the unit's pair, and what its consumer must know of the unit.
  __device__ __forceinline__ void load_q(int32_t unit, int half, int32_t q_head, int32_t head,
                                         uint32_t parity) {
    const int32_t of_half = __shfl_sync(~0U, head, kQBlock + half);
    const int32_t idx = works_on(half) ? of_half : -1;
    Block block = Block::nothing();
    if (idx >= 0) block = p_.q_blocks[idx];
    const int32_t num_common = __shfl_sync(~0U, head, 0);
    ItemHalf of{.num_common = num_common,
                .num_own = {__shfl_sync(~0U, head, kNumOwn), __shfl_sync(~0U, head, kNumOwn + 1)},
                .unit = unit,
                .block = block,
                .has_short = __shfl_sync(~0U, head, kHasShort),
                .q_block = idx};
    if (kPaired && !Unit::is_whole(unit, num_whole())) {
      if (half != 0) of.num_own[0] = 0;
      if (half == 0) of.num_own[1] = 0;
    }
    if constexpr (!kPaired) {
      for (int32_t& num_own : of.num_own) num_own += num_common;
      of.num_common = 0;
    }
    barrier_wait(smem_address(&s_.empty_q[ring_]), parity ^ 1);
    if (lane_ == 0) {
      const uint32_t full = smem_address(&s_.full_q[ring_]);
      barrier_expect(full, Copy::bytes(block));
      Copy::start(p_.q, block, smem_address(s_.q[ring_]), 0, q_head, full);
    }
    announce(of, parity);
  }

  /// Tells the consumer its unit. q is free.
  __device__ __forceinline__ void announce(const ItemHalf& of, uint32_t parity) {
    if (lane_ == 0) {
      s_.item[parity][ring_] = of;
      barrier_arrive(smem_address(&s_.full_q[ring_]));
    }
    __syncwarp();
  }

  /// All steps of a unit in this ring: where consumers share rings every second of the common ones,
  /// then those of the consumer with the ring's number.
  __device__ __forceinline__ void feed(const uint32_t* entries, bool is_whole, int half,
                                       int32_t head) {
    const int32_t num_common = __shfl_sync(~0U, head, kBeginOwn);  // entries
    const int32_t begin = __shfl_sync(~0U, head, kBeginOwn + half);
    const int32_t end = __shfl_sync(~0U, head, kBeginOwn + 1 + half);
    const int32_t num = num_common + (works_on(half) ? end - begin : 0);
    const auto entry_at = [&](int32_t i) {
      i += static_cast<int32_t>(lane_);
      return i < num ? load_global(entries + (i < num_common ? i : i - num_common + begin)) : 0U;
    };
    const auto block_of = [&](uint32_t entry) {
      return __ldg(reinterpret_cast<const int4*>(p_.kv_blocks + ScheduleEntry::block(entry)));
    };
    if (num == 0) return;
    uint32_t entry = entry_at(0);
    uint32_t next_entry = entry_at(32);
    int4 block = block_of(entry);
    // Common steps are counted from their end: the last is in ring 1, the one before in ring 0.
    auto step = static_cast<uint32_t>(__shfl_sync(~0U, head, 0));
#pragma unroll 1
    for (int32_t base = 0; base < num; base += 32) {
      const int4 next_block = block_of(next_entry);
      const uint32_t after = entry_at(base + 64);
      const int32_t count = min(32, num - base);
#pragma unroll 1
      for (int32_t i = 0; i < count; ++i) {
        const uint32_t e = __shfl_sync(~0U, entry, i);
        const bool is_own = base + i >= num_common;
        if (!kPaired || is_own || step % 2 == ring_) {
          const Block of{__shfl_sync(~0U, block.x, i), __shfl_sync(~0U, block.y, i),
                         __shfl_sync(~0U, block.z, i),
                         static_cast<uint32_t>(__shfl_sync(~0U, block.w, i))};
          const bool exclusive = kPaired && (is_own || !is_whole);
          if constexpr (kKeys) keys_.load(e, of, exclusive);
          if constexpr (kValues) values_.load(e, of, exclusive);
        }
        if ((e & ScheduleEntry::kLast) != 0) --step;
      }
      entry = next_entry;
      next_entry = after;
      block = next_block;
    }
  }

  const FineParams& p_;
  Smem& s_;
  const uint32_t lane_, ring_;
  Stream<kHeadDim, false> keys_;
  Stream<kHeadDim, true> values_;
};

}  // namespace vsa::cuda::sm90
