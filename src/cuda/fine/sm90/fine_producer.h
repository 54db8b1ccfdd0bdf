// The producers of the forward fine kernel: each warp fills the k slots, the v slots or both of one
// ring by TMA; whoever loads k also loads the q of that ring's consumer. Device-only.
//
//   for each unit (fine_queue.h):
//     wait empty_q -> copy q, write ConsumerWork, arrive on full_q
//     for each step of the schedule that this ring takes:
//       wait empty_k (empty_v) -> copy the step's blocks, arrive on full_k (full_v)
//
// Each lane of a producer reads one schedule entry and its block at least 32 entries ahead, so that
// no copy waits for a load from global memory.
#pragma once

#include <cstddef>
#include <type_traits>

#include "src/cuda/fine/sm90/copy_block.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_queue.h"
#include "src/cuda/fine/sm90/ptx.h"

namespace vsa::cuda::sm90 {

/// Fills the k or the v slots of one ring, one after the other.
template <int kHeadDim, bool kValues>
class SlotLoader {
 public:
  using Smem = FineSmem<kHeadDim>;
  using Copy = BlockCopy<Smem::kSlabs>;

  __device__ __forceinline__ SlotLoader(const FineParams& params, Smem& smem, uint32_t ring)
      : p_(params), s_(smem), ring_(ring) {}

  __device__ __forceinline__ void begin(int32_t batch, int32_t kv_head) {
    const HeadStep& step = kValues ? p_.v_step : p_.k_step;
    head_ = batch * step.batch + kv_head * step.head;
  }

  /// Starts copying one block of a step; the entry says whether it is the step's last.
  /// @param exclusive  only one of two consumers reads the slot: this function makes the arrivals
  ///                   of the other one
  __device__ __forceinline__ void load(uint32_t entry, const Block& block, bool exclusive) {
    const uint32_t full = smem_address(&(kValues ? s_.full_v : s_.full_k)[ring_][slot_]);
    const uint32_t empty = smem_address(&(kValues ? s_.empty_v : s_.empty_k)[ring_][slot_]);
    const uint32_t buffer = smem_address((kValues ? s_.v : s_.k)[ring_][slot_]);
    if (bits_ == 0) barrier_wait(empty, parity_ ^ 1);
    const int32_t row = ScheduleEntry::row(entry);
    bits_ |= row_bits(row, block.len());
    const bool is_last = (entry & ScheduleEntry::kLast) != 0;
    if (is_last && kValues && bits_ != ~uint64_t{0}) {
      // The probabilities of rows without a token are 0, but 0 * NaN is NaN, and these rows of the
      // buffer still hold old data.
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
  uint64_t bits_ = 0;  // rows of the slot that hold a token so far; 0: its step has not begun
};

/// @tparam kKeys    whether it loads k and q
/// @tparam kValues  whether it loads v
template <int kHeadDim, bool kKeys, bool kValues>
class Producer {
 public:
  using Smem = FineSmem<kHeadDim>;
  using Copy = BlockCopy<Smem::kSlabs>;
  using WorkUnit = sm90::WorkUnit<kHeadDim>;
  using Units = std::conditional_t<WorkUnit::kPaired, UnitQueue, StaticUnits>;
  static constexpr bool kPaired = WorkUnit::kPaired;

  __device__ __forceinline__ Producer(const FineParams& params, Smem& smem, uint32_t ring)
      : p_(params),
        s_(smem),
        lane_(threadIdx.x % 32),
        ring_(ring),
        keys_(params, smem, ring),
        values_(params, smem, ring) {}

  __device__ __forceinline__ void run() {
    const int32_t num_units = WorkUnit::count(p_.num_items, num_pair_items());
    Units units(p_, s_, ring_, kKeys && ring_ == 0);
    int32_t unit = units.unit();
    int32_t word = unit < num_units ? schedule_head_word(unit) : 0;
    while (unit < num_units) {
      const int32_t item = WorkUnit::item(unit, num_pair_items());
      const int32_t head_idx = item / p_.num_pairs;
      const int32_t b = head_idx / p_.num_heads;
      const int32_t h = head_idx % p_.num_heads;
      const bool is_pair = WorkUnit::is_pair(unit, num_pair_items());
      const int half = is_pair ? static_cast<int>(ring_) : WorkUnit::half(unit, num_pair_items());
      if constexpr (kKeys) {
        load_q(unit, half, b * p_.q_step.batch + h * p_.q_step.head, word, units.parity());
        keys_.begin(b, h / p_.group_size);
      }
      if constexpr (kValues) values_.begin(b, h / p_.group_size);
      const int32_t next = units.next();
      const int32_t next_word = next < num_units ? schedule_head_word(next) : 0;
      load_steps(p_.entries + item * p_.entry_pitch, is_pair, half, word);
      unit = next;
      word = next_word;
    }
    if constexpr (kPaired && kKeys) {
      barrier_wait(smem_address(&s_.empty_q[ring_]), units.parity() ^ 1);
      publish_unit({}, units.parity());
    }
  }

 private:
  __device__ __forceinline__ int32_t num_pair_items() const {
    return kPaired ? p_.num_pair_items : 0;
  }

  /// Whether the consumer of this ring computes that half: then the ring gets its q, and the steps
  /// that only this half reads.
  __device__ __forceinline__ bool loads_for(int half) const {
    return !kPaired || half == static_cast<int>(ring_);
  }

  /// Lane i holds word i of the item's ScheduleHead; the words are read by shuffles.
  static constexpr int kHeadWords = sizeof(ScheduleHead) / 4;
  static constexpr int kNumExclusive = offsetof(ScheduleHead, num_exclusive) / 4;
  static constexpr int kBeginExclusive = offsetof(ScheduleHead, begin_exclusive) / 4;
  static constexpr int kHasPartial = offsetof(ScheduleHead, has_partial) / 4;
  static constexpr int kQBlock = offsetof(ScheduleHead, q_block) / 4;
  static_assert(offsetof(ScheduleHead, end) / 4 == kBeginExclusive + 2);
  __device__ __forceinline__ int32_t schedule_head_word(int32_t unit) const {
    return static_cast<int32_t>(load_global(
        reinterpret_cast<const uint32_t*>(p_.heads + WorkUnit::item(unit, num_pair_items())) +
        lane_ % kHeadWords));
  }

  /// Starts copying the q of one half, and tells its consumer about the unit.
  /// @param q_head  coordinate of the head in the tensor maps of q
  /// @param word    this lane's word of the item's ScheduleHead
  /// @param parity  of the unit: which of two ConsumerWork, and the phase of the q barriers
  __device__ __forceinline__ void load_q(int32_t unit, int half, int32_t q_head, int32_t word,
                                         uint32_t parity) {
    const int32_t block_of_half = __shfl_sync(~0U, word, kQBlock + half);
    const int32_t idx = loads_for(half) ? block_of_half : -1;
    Block block = Block::empty();
    if (idx >= 0) block = p_.q_blocks[idx];
    const int32_t num_common = __shfl_sync(~0U, word, 0);
    ConsumerWork work{.num_common = num_common,
                      .num_exclusive = {__shfl_sync(~0U, word, kNumExclusive),
                                        __shfl_sync(~0U, word, kNumExclusive + 1)},
                      .unit = unit,
                      .block = block,
                      .has_partial = __shfl_sync(~0U, word, kHasPartial),
                      .q_block = idx};
    if (kPaired && !WorkUnit::is_pair(unit, num_pair_items())) {
      if (half != 0) work.num_exclusive[0] = 0;
      if (half == 0) work.num_exclusive[1] = 0;
    }
    if constexpr (!kPaired) {
      for (int32_t& num_exclusive : work.num_exclusive) num_exclusive += num_common;
      work.num_common = 0;
    }
    barrier_wait(smem_address(&s_.empty_q[ring_]), parity ^ 1);
    if (lane_ == 0) {
      const uint32_t full = smem_address(&s_.full_q[ring_]);
      barrier_expect(full, Copy::bytes(block));
      Copy::start(p_.q, block, smem_address(s_.q[ring_]), 0, q_head, full);
    }
    publish_unit(work, parity);
  }

  /// Tells the consumer its work, once empty_q has been waited for.
  __device__ __forceinline__ void publish_unit(const ConsumerWork& work, uint32_t parity) {
    if (lane_ == 0) {
      s_.work[parity][ring_] = work;
      barrier_arrive(smem_address(&s_.full_q[ring_]));
    }
    __syncwarp();
  }

  /// Loads the steps of a unit that this ring takes: at head_dim 128 every second common step, then
  /// the steps that only the half with the ring's number reads; at head_dim 64 all steps.
  __device__ __forceinline__ void load_steps(const uint32_t* entries, bool is_pair, int half,
                                             int32_t word) {
    const int32_t num_common = __shfl_sync(~0U, word, kBeginExclusive);  // entries
    const int32_t begin = __shfl_sync(~0U, word, kBeginExclusive + half);
    const int32_t end = __shfl_sync(~0U, word, kBeginExclusive + 1 + half);
    const int32_t num = num_common + (loads_for(half) ? end - begin : 0);
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
    // Common steps are counted down: the last one is number 1 and in ring 1, the one before it is
    // number 2 and in ring 0.
    auto step = static_cast<uint32_t>(__shfl_sync(~0U, word, 0));
#pragma unroll 1
    for (int32_t base = 0; base < num; base += 32) {
      const int4 next_block = block_of(next_entry);
      const uint32_t after = entry_at(base + 64);
      const int32_t count = min(32, num - base);
#pragma unroll 1
      for (int32_t i = 0; i < count; ++i) {
        const uint32_t e = __shfl_sync(~0U, entry, i);
        const bool is_exclusive = base + i >= num_common;
        if (!kPaired || is_exclusive || step % 2 == ring_) {
          const Block kv_block{__shfl_sync(~0U, block.x, i), __shfl_sync(~0U, block.y, i),
                               __shfl_sync(~0U, block.z, i),
                               static_cast<uint32_t>(__shfl_sync(~0U, block.w, i))};
          const bool exclusive = kPaired && (is_exclusive || !is_pair);
          if constexpr (kKeys) keys_.load(e, kv_block, exclusive);
          if constexpr (kValues) values_.load(e, kv_block, exclusive);
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
  SlotLoader<kHeadDim, false> keys_;
  SlotLoader<kHeadDim, true> values_;
};

}  // namespace vsa::cuda::sm90
