// A consumer of the forward fine kernel at head_dim 128: a warpgroup that holds the 64 query rows
// of one half of a pair in registers and processes their keys, two slots (128 keys) in an
// iteration. Device-only.
//
//   wait full_q -> q to registers, arrive on empty_q
//   slots in the order of fine_slots.h:
//     an odd number: the first slot alone (attend_one)
//     the first two: s = q k^T, maximum, p = exp2(scale_log2 (s - maximum))
//     iterations (pipeline_step): s = q k^T of the next two beside out += p v of the two before
//     the last two: out += p v
//   arrive on pair_barrier -> epilogue stores out -> wait for pair_barrier -> the next unit
//
// An iteration processes two slots, because barriers, waits and the vote on the sums cost the same
// for one. All four warps of the warpgroup run this code; each warp waits for full barriers and
// arrives on empty barriers for itself.
// Registers of a thread: q 32, scores 64, probabilities 32, out 64, state 6.
#pragma once

#include <cstddef>

#include "src/cuda/fine/sm90/fine_epilogue.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_query.h"
#include "src/cuda/fine/sm90/fine_recompute.h"
#include "src/cuda/fine/sm90/fine_slots.h"
#include "src/cuda/fine/sm90/fine_softmax.h"
#include "src/cuda/fine/sm90/slot_metadata.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim>
class PairConsumer {
 public:
  using Smem = FineSmem<kHeadDim>;
  using Offsets = SlotOffsets<Smem>;
  using WorkUnit = sm90::WorkUnit<kHeadDim>;
  using Rings = sm90::Rings<Smem::kStages>;
  static constexpr int kSteps = kHeadDim / 16;         // wgmma of k = 16 along head_dim
  static constexpr int kKeySteps = kBlockTokens / 16;  // wgmma of k = 16 along the keys of a slot

  __device__ __forceinline__ PairConsumer(const FineParams& params, Smem& smem, int half)
      : p_(params),
        s_(smem),
        half_(hide_from_compiler(half)),
        barriers_(smem_address(&smem.full_k[0][0])),
        buffers_(warp_uniform(smem_address(&smem))) {}

  __device__ __forceinline__ void run() {
    save_state({}, 0);
    while (true) {
      uint32_t parity = saved_state() >> 16;
      barrier_wait(smem_address(&s_.full_q[half_]), parity);
      if (saved_work().unit == ConsumerWork::kNoMoreUnits) break;
      uint32_t q[kSteps][4];
      load_query(q, smem_address(s_.q[half_]), p_.q_sign, saved_work().block.len());
      barrier_arrive(smem_address(&s_.empty_q[half_]));

      float out[kHeadDim / 2] = {};
      SoftmaxState softmax;
      epilogue(saved_work().unit).prefetch_gate(saved_work().block);
      attend(saved_work(), q, out, softmax);
      warp_arrive(smem_address(&s_.pair_barrier));
      softmax.reduce_sums();
      // Read from shared memory again instead of kept in registers, which the products need.
      const ConsumerWork& work = saved_work();
      if (work.q_block >= 0) epilogue(work.unit).store(work.block, work.q_block, out, softmax);

      // This consumer did not wait for the phases of slots that only the other consumer reads.
      // After the pair barrier all of these phases are complete, so that the parities that this
      // consumer computes for the next unit are unambiguous.
      parity = saved_state() >> 16;
      Rings rings = saved_rings();
      rings.skip(work.num_common, work.num_exclusive);
      save_state(rings, parity ^ 1U);
      barrier_wait(smem_address(&s_.pair_barrier), parity);
    }
  }

 private:
  __device__ __forceinline__ Epilogue<T, kHeadDim> epilogue(int32_t unit) const {
    return {p_, WorkUnit::item(unit, p_.num_pair_items)};
  }

  /// Returns the next kCount slots of the unit and advances the rings.
  template <int kCount>
  __device__ __forceinline__ Slots next_slots(Rings& rings, int32_t& left,
                                              int32_t num_exclusive) const {
    return rings.template next_slots<kCount>(left, num_exclusive, half_);
  }

  /// State of this warp that lives in shared memory during a unit, to spare registers: bytes 0 and
  /// 1 are the next slot of each ring at the start of the unit, byte 2 is the parity of the unit:
  /// of the q barriers, the pair barrier and FineSmem::work.
  __device__ __forceinline__ uint32_t& saved_state() const {
    return s_.saved_state[thread_idx() / 32];
  }
  __device__ __forceinline__ void save_state(const Rings& rings, uint32_t parity) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) saved_state() = rings.next.bytes | parity << 16;
    __syncwarp();
  }
  __device__ __forceinline__ Rings saved_rings() const { return {{saved_state() & 0xFFFFU}}; }
  __device__ __forceinline__ const ConsumerWork& saved_work() const {
    return s_.work[saved_state() >> 16][half_];
  }

  /// Waits until the keys of the first kKeys slots of `keys` and the values of the first kValues
  /// slots of `values` have arrived. One round of try_wait on all of them comes first, as they are
  /// nearly always full.
  template <int kKeys, int kValues>
  __device__ __forceinline__ void wait_full(const Slots& keys, const Slots& values) const {
    bool full = true;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) {
      full &= barrier_try_wait(barriers_ + Offsets::kFullK + keys[c].offset(), keys[c].parity());
    }
#pragma unroll
    for (int c = 0; c < kValues; ++c) {
      full &=
          barrier_try_wait(barriers_ + Offsets::kFullV + values[c].offset(), values[c].parity());
    }
    if (__builtin_expect(full, 1)) return;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) {
      barrier_wait(barriers_ + Offsets::kFullK + keys[c].offset(), keys[c].parity());
    }
#pragma unroll
    for (int c = 0; c < kValues; ++c) {
      barrier_wait(barriers_ + Offsets::kFullV + values[c].offset(), values[c].parity());
    }
  }

  /// Whether all rows of a slot hold a token, and which ones do. full_k was waited for.
  __device__ __forceinline__ bool all_rows_full(const Slot& slot) const {
    return read_all_rows_full(barriers_ + Offsets::kRowBits + slot.offset());
  }
  __device__ __forceinline__ uint64_t row_bits(const Slot& slot) const {
    return read_row_bits(barriers_ + Offsets::kRowBits + slot.offset());
  }

  /// Arrives on the empty barriers of slots: this warp no longer reads them.
  /// @param empty  Offsets::kEmptyK or Offsets::kEmptyV
  template <int kCount>
  __device__ __forceinline__ void release_slots(const Slots& slots, uint32_t empty) const {
    __syncwarp();
    if (threadIdx.x % 32 != 0) return;
#pragma unroll
    for (int c = 0; c < kCount; ++c) barrier_arrive(barriers_ + empty + slots[c].offset());
  }

  __device__ __forceinline__ uint32_t buffer_of(const Slot& keys) const {
    return buffers_ + kBufferK + keys.number() * Smem::kBufferBytes;
  }

  /// Starts scores = q k^T for the keys of a slot.
  __device__ __forceinline__ void start_scores(const Slot& slot, const uint32_t (&q)[kSteps][4],
                                               float (&scores)[kScores]) const {
    const Descriptor k(k_descriptor(buffer_of(slot)));
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      wgmma<T, 0>(scores, q[j], k.advanced(k_advance(j)), j > 0 ? 1 : 0);
    }
    wgmma_commit();
  }

  /// Starts out += p v for the values of kCount slots.
  template <int kCount>
  __device__ __forceinline__ void start_out(const Slots& slots,
                                            const uint32_t (&p)[kCount][kKeySteps][4],
                                            float (&out)[kHeadDim / 2]) const {
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const Descriptor v(
          v_descriptor(buffers_ + kBufferV + slots[c].number() * Smem::kBufferBytes));
#pragma unroll
      for (int j = 0; j < kKeySteps; ++j) {
        wgmma<T, 1>(out, p[c][j], v.advanced(v_advance(j)), 1);
      }
    }
    wgmma_commit();
  }

  /// Waits for the scores of a slot and masks its rows without a token.
  /// @tparam kPending  groups of products that were started after these scores
  template <int kPending>
  __device__ __forceinline__ void finish_scores(const Slot& slot, float (&scores)[kScores]) const {
    wgmma_wait<kPending>();
    fence_registers(scores);
    if (!__builtin_expect(all_rows_full(slot), 1))
      mask_scores(scores, row_bits(slot), p_.last_key_score);
  }

  /// Waits for out += p v and releases the values.
  template <int kCount>
  __device__ __forceinline__ void finish_out(const Slots& slots,
                                             uint32_t (&p)[kCount][kKeySteps][4],
                                             float (&out)[kHeadDim / 2]) const {
    wgmma_wait<0>();
    fence_registers(out);
#pragma unroll
    for (int c = 0; c < kCount; ++c) fence_registers(p[c]);
    release_slots<kCount>(slots, Offsets::kEmptyV);
  }

  /// Attention of the query block to all keys of the unit.
  __device__ __forceinline__ void attend(const ConsumerWork& work, uint32_t (&q)[kSteps][4],
                                         float (&out)[kHeadDim / 2], SoftmaxState& softmax) {
    const int32_t num_exclusive = work.num_exclusive[half_];
    int32_t left = work.q_block < 0 ? 0 : work.num_common + num_exclusive;
    Rings rings = saved_rings();
    if (left % 2 != 0) attend_one(next_slots<1>(rings, left, num_exclusive), q, out, softmax);
    if (left == 0) return;

    Slots now = next_slots<2>(rings, left, num_exclusive);
    float scores[2][kScores];
    uint32_t p[2][kKeySteps][4];
    wait_full<2, 0>(now, now);
    fence_registers(scores[0]);
    fence_registers(scores[1]);
    wgmma_fence();
    start_scores(now[0], q, scores[0]);
    start_scores(now[1], q, scores[1]);
    finish_scores<1>(now[0], scores[0]);
    finish_scores<0>(now[1], scores[1]);
    float factor[2];
    softmax.update_max(scores, p_.scale_log2, factor);
    rescale_rows(out, factor);
    softmax.exponentiate(scores[0], p_.scale_log2);
    softmax.exponentiate(scores[1], p_.scale_log2);
    release_slots<2>(now, Offsets::kEmptyK);
    pack_probabilities<T>(scores[0], p[0]);
    pack_probabilities<T>(scores[1], p[1]);

    Slots next = next_slots<2>(rings, left, num_exclusive);  // not used if left < 0
#pragma unroll 1
    while (left >= 0)
      pipeline_step(next, now, q, scores, p, out, softmax, rings, left, num_exclusive);
    wait_full<0, 2>(now, now);
    fence_registers(out);
    wgmma_fence();
    start_out(now, p, out);
    finish_out(now, p, out);
  }

  /// One iteration: computes out += p v of the slots `now` at the same time as scores = q k^T of
  /// the slots `next`, whose probabilities replace p. Then `next` becomes `now`, and the slots
  /// after it become `next`.
  ///   tensor cores  | q k^T (0)   | q k^T (1) | p v                          |
  ///   this warp     | issue, wait | exp (0)   | exp (1), needs_rescale, wait | pack p
  __device__ __forceinline__ void pipeline_step(
      Slots& next, Slots& now, const uint32_t (&q)[kSteps][4], float (&scores)[2][kScores],
      uint32_t (&p)[2][kKeySteps][4], float (&out)[kHeadDim / 2], SoftmaxState& softmax,
      Rings& rings, int32_t& left, int32_t num_exclusive) const {
    // The compiler does not know that slots carried over the loop are the same in all lanes.
    // Without warp_uniform it would move the descriptor to uniform registers for every single
    // wgmma.
    const Slots keys{warp_uniform(next.bytes)};
    const Slots values{warp_uniform(now.bytes)};
    wait_full<2, 2>(next, now);
    fence_registers(scores[0]);
    fence_registers(scores[1]);
    fence_registers(out);
    wgmma_fence();
    start_scores(keys[0], q, scores[0]);
    start_scores(keys[1], q, scores[1]);
    start_out(values, p, out);
    float sums[2] = {0.0F, 0.0F};
    finish_scores<2>(next[0], scores[0]);
    softmax.exponentiate(scores[0], p_.scale_log2, sums);
    finish_before_wait(softmax.sum[0] + sums[0] + sums[1]);
    finish_scores<1>(next[1], scores[1]);
    softmax.exponentiate(scores[1], p_.scale_log2, sums);
    const bool needs_rescale = softmax.needs_rescale(sums);
    if (__builtin_expect(!needs_rescale, 1)) release_slots<2>(next, Offsets::kEmptyK);
    sums[0] += softmax.sum[0];
    sums[1] += softmax.sum[1];
    finish_before_wait(sums[0] + sums[1]);
    finish_out(now, p, out);
    if (__builtin_expect(needs_rescale, 0)) {
      recompute_with_new_max<T>(q, {buffer_of(next[0]), buffer_of(next[1])},
                                {row_bits(next[0]), row_bits(next[1])}, p_.last_key_score,
                                p_.scale_log2, scores, softmax, out);
      release_slots<2>(next, Offsets::kEmptyK);
    } else {
      softmax.sum[0] = sums[0];
      softmax.sum[1] = sums[1];
    }
    now = next;
    next = next_slots<2>(rings, left, num_exclusive);
    pack_probabilities<T>(scores[0], p[0]);
    pack_probabilities<T>(scores[1], p[1]);
  }

  /// Processes the first slot of a unit alone, where the number of slots is odd.
  __device__ __forceinline__ void attend_one(const Slots& slot, uint32_t (&q)[kSteps][4],
                                             float (&out)[kHeadDim / 2], SoftmaxState& softmax) {
    float scores[1][kScores];
    uint32_t p[1][kKeySteps][4];
    float factor[2];  // not applied: out and the sums are still 0
    wait_full<1, 1>(slot, slot);
    fence_registers(scores[0]);
    wgmma_fence();
    start_scores(slot[0], q, scores[0]);
    finish_scores<0>(slot[0], scores[0]);
    release_slots<1>(slot, Offsets::kEmptyK);
    softmax.update_max(scores, p_.scale_log2, factor);
    softmax.exponentiate(scores[0], p_.scale_log2);
    pack_probabilities<T>(scores[0], p[0]);
    fence_registers(out);
    wgmma_fence();
    start_out(slot, p, out);
    finish_out(slot, p, out);
  }

  // Offsets in FineSmem, which begins at buffers_.
  static constexpr uint32_t kBufferK = offsetof(Smem, k);
  static constexpr uint32_t kBufferV = offsetof(Smem, v);

  const FineParams& p_;
  Smem& s_;
  const int half_;
  const uint32_t barriers_, buffers_;  // addresses of full_k[0][0] and of FineSmem
};

}  // namespace vsa::cuda::sm90
