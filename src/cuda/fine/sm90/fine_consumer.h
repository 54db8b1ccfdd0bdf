// A consumer of a pair: a warpgroup that holds one half's 64 query rows in registers and passes
// over their keys, two slots (128 keys) at a time. Device-only.
//
// Two, because what comes with every turn besides products and exponentials (barriers, waits, the
// vote on the sums) takes as long for one.
// Registers of a thread at head_dim 128: q 32, scores 64, probabilities 32, out 64, state 6.
#pragma once

#include <cstddef>

#include "src/cuda/fine/sm90/fine_epilogue.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_probabilities.h"
#include "src/cuda/fine/sm90/fine_query.h"
#include "src/cuda/fine/sm90/fine_slots.h"
#include "src/cuda/fine/sm90/fine_softmax.h"
#include "src/cuda/fine/sm90/slot_words.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim>
class Consumer {
 public:
  using Smem = FineSmem<kHeadDim>;
  using At = SlotOffsets<Smem>;
  using Unit = sm90::Unit<kHeadDim>;
  using Rings = sm90::Rings<Smem::kStages>;
  static constexpr int kSteps = kHeadDim / 16;  // products of q k, 16 at a time
  static constexpr int kKeySteps = kBlockTokens / 16;

  __device__ __forceinline__ Consumer(const FineParams& params, Smem& smem, int half)
      : p_(params),
        s_(smem),
        half_(opaque(half)),
        barriers_(smem_address(&smem.full_k[0][0])),
        buffers_(uniform(smem_address(&smem))) {}

  __device__ __forceinline__ void run() {
    write_note({}, 0);
    while (true) {
      uint32_t parity = note() >> 16;
      barrier_wait(smem_address(&s_.full_q[half_]), parity);
      if (noted_half().unit == ItemHalf::kNoUnit) break;
      uint32_t q[kSteps][4];
      load_query(q, smem_address(s_.q[half_]), p_.q_sign, noted_half().block.len());
      barrier_arrive(smem_address(&s_.empty_q[half_]));

      float out[kHeadDim / 2] = {};
      SoftmaxState softmax;
      epilogue(noted_half().unit).prefetch_gate(noted_half().block);
      attend(noted_half(), q, out, softmax);
      sm90::release(smem_address(&s_.meet));
      softmax.finish();
      // Found again, and read wherever it is needed: the registers are for products.
      const ItemHalf& of = noted_half();
      if (of.q_block >= 0) epilogue(of.unit).store(of.block, of.q_block, out, softmax);

      // A slot that only the other consumer reads goes through phases unseen. Meeting here makes
      // all of them past, so that the parities of the next item mean what they say.
      parity = note() >> 16;
      Rings rings = noted_rings();
      rings.skip(of.num_common, of.num_own);
      write_note(rings, parity ^ 1U);
      barrier_wait(smem_address(&s_.meet), parity);
    }
  }

 private:
  __device__ __forceinline__ Epilogue<T, kHeadDim> epilogue(int32_t unit) const {
    return {p_, Unit::item(unit, p_.num_whole)};
  }

  /// The next kCount slots of an item.
  template <int kCount>
  __device__ __forceinline__ Slots take(Rings& rings, int32_t& left, int32_t num_own) const {
    return rings.template take<kCount>(left, num_own, half_);
  }

  /// What a warp must know again at the end of an item waits in shared memory: the next slot of
  /// each ring when the item began and, in the third byte, the parity of what is used once an item.
  __device__ __forceinline__ uint32_t& note() const { return s_.notes[thread_idx() / 32]; }
  __device__ __forceinline__ void write_note(const Rings& rings, uint32_t parity) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) note() = rings.next.bytes | parity << 16;
    __syncwarp();
  }
  __device__ __forceinline__ Rings noted_rings() const { return {{note() & 0xFFFFU}}; }
  __device__ __forceinline__ const ItemHalf& noted_half() const {
    return s_.item[note() >> 16][half_];
  }

  /// Waits until slots are full: of `keys` the keys, of `values` the values.
  template <int kKeys, int kValues>
  __device__ __forceinline__ void wait_full(const Slots& keys, const Slots& values) const {
    bool full = true;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) {
      full &= barrier_try(barriers_ + At::kFullK + keys[c].offset(), keys[c].parity());
    }
#pragma unroll
    for (int c = 0; c < kValues; ++c) {
      full &= barrier_try(barriers_ + At::kFullV + values[c].offset(), values[c].parity());
    }
    if (__builtin_expect(full, 1)) return;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) {
      barrier_wait(barriers_ + At::kFullK + keys[c].offset(), keys[c].parity());
    }
#pragma unroll
    for (int c = 0; c < kValues; ++c) {
      barrier_wait(barriers_ + At::kFullV + values[c].offset(), values[c].parity());
    }
  }

  /// Whether all rows of a slot hold a token, and which do. Its keys are full.
  __device__ __forceinline__ bool all_rows_full(const Slot& slot) const {
    return read_all_rows_full(barriers_ + At::kRowBits + slot.offset());
  }
  __device__ __forceinline__ uint64_t row_bits(const Slot& slot) const {
    return read_row_bits(barriers_ + At::kRowBits + slot.offset());
  }

  /// This warp is done with the slots that such barriers guard.
  template <int kCount>
  __device__ __forceinline__ void release(const Slots& slots, uint32_t empty) const {
    __syncwarp();
    if (threadIdx.x % 32 != 0) return;
#pragma unroll
    for (int c = 0; c < kCount; ++c) barrier_arrive(barriers_ + empty + slots[c].offset());
  }

  __device__ __forceinline__ uint32_t buffer_of(const Slot& keys) const {
    return buffers_ + kBufferK + keys.number() * Smem::kBufferBytes;
  }

  /// Starts scores = q k for the keys of a slot.
  __device__ __forceinline__ void start_scores(const Slot& slot, const uint32_t (&q)[kSteps][4],
                                               float (&scores)[kScores]) const {
    const Descriptor k(k_descriptor(buffer_of(slot)));
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      wgmma<T, 0>(scores, q[j], k.advanced(k_advance(j)), j > 0 ? 1 : 0);
    }
    wgmma_commit();
  }

  /// Starts out += p v.
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

  /// Waits until all but kPending groups of products are done, of which the scores of a slot were
  /// the last to be waited for, and hides its rows without a token.
  template <int kPending>
  __device__ __forceinline__ void finish_scores(const Slot& slot, float (&scores)[kScores]) const {
    wgmma_wait<kPending>();
    pin(scores);
    if (!__builtin_expect(all_rows_full(slot), 1)) mask_scores(scores, row_bits(slot));
  }

  /// Waits for out += p v and frees the values.
  template <int kCount>
  __device__ __forceinline__ void finish_out(const Slots& slots,
                                             uint32_t (&p)[kCount][kKeySteps][4],
                                             float (&out)[kHeadDim / 2]) const {
    wgmma_wait<0>();
    pin(out);
#pragma unroll
    for (int c = 0; c < kCount; ++c) pin(p[c]);
    release<kCount>(slots, At::kEmptyV);
  }

  /// All keys of this half of the item.
  __device__ __forceinline__ void attend(const ItemHalf& of, uint32_t (&q)[kSteps][4],
                                         float (&out)[kHeadDim / 2], SoftmaxState& softmax) {
    const int32_t num_own = of.num_own[half_];
    int32_t left = of.q_block < 0 ? 0 : of.num_common + num_own;
    Rings rings = noted_rings();
    if (left % 2 != 0) attend_one(take<1>(rings, left, num_own), q, out, softmax);
    if (left == 0) return;

    Slots now = take<2>(rings, left, num_own);
    float scores[2][kScores];
    uint32_t p[2][kKeySteps][4];
    wait_full<2, 0>(now, now);
    pin(scores[0]);
    pin(scores[1]);
    wgmma_fence();
    start_scores(now[0], q, scores[0]);
    start_scores(now[1], q, scores[1]);
    finish_scores<1>(now[0], scores[0]);
    finish_scores<0>(now[1], scores[1]);
    float by[2];
    softmax.admit(scores, p_.scale_log2, by);
    rescale_rows(out, by);
    softmax.exponentiate(scores[0], p_.scale_log2);
    softmax.exponentiate(scores[1], p_.scale_log2);
    release<2>(now, At::kEmptyK);
    pack_probabilities<T>(scores[0], p[0]);
    pack_probabilities<T>(scores[1], p[1]);

    Slots next = take<2>(rings, left, num_own);  // beyond the end nobody looks
#pragma unroll 1
    while (left >= 0) turn(next, now, q, scores, p, out, softmax, rings, left, num_own);
    wait_full<0, 2>(now, now);
    pin(out);
    wgmma_fence();
    start_out(now, p, out);
    finish_out(now, p, out);
  }

  /// out += p v of slots `now` beside scores = q k of slots `next`, whose probabilities become p;
  /// then these are `now`, and `next` the slots after them.
  ///   tensor cores  | q k (0)     | q k (1) | p v                     |
  ///   this warp     | issue, wait | exp (0) | exp (1), outgrown, wait | pack
  __device__ __forceinline__ void turn(Slots& next, Slots& now, const uint32_t (&q)[kSteps][4],
                                       float (&scores)[2][kScores], uint32_t (&p)[2][kKeySteps][4],
                                       float (&out)[kHeadDim / 2], SoftmaxState& softmax,
                                       Rings& rings, int32_t& left, int32_t num_own) const {
    // Carried over the loop, slots are not known to be the same in all lanes, and a descriptor made
    // of them would be moved to uniform registers product by product.
    const Slots keys{uniform(next.bytes)};
    const Slots values{uniform(now.bytes)};
    wait_full<2, 2>(next, now);
    pin(scores[0]);
    pin(scores[1]);
    pin(out);
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
    const bool outgrown = softmax.outgrown(sums);
    if (__builtin_expect(!outgrown, 1)) release<2>(next, At::kEmptyK);
    sums[0] += softmax.sum[0];
    sums[1] += softmax.sum[1];
    finish_before_wait(sums[0] + sums[1]);
    finish_out(now, p, out);
    if (__builtin_expect(outgrown, 0)) {
      make_again<T>(q, {buffer_of(next[0]), buffer_of(next[1])},
                    {row_bits(next[0]), row_bits(next[1])}, p_.scale_log2, scores, softmax, out);
      release<2>(next, At::kEmptyK);
    } else {
      softmax.sum[0] = sums[0];
      softmax.sum[1] = sums[1];
    }
    now = next;
    next = take<2>(rings, left, num_own);
    pack_probabilities<T>(scores[0], p[0]);
    pack_probabilities<T>(scores[1], p[1]);
  }

  /// A slot that has no second.
  __device__ __forceinline__ void attend_one(const Slots& slot, uint32_t (&q)[kSteps][4],
                                             float (&out)[kHeadDim / 2], SoftmaxState& softmax) {
    float scores[1][kScores];
    uint32_t p[1][kKeySteps][4];
    float by[2];
    wait_full<1, 1>(slot, slot);
    pin(scores[0]);
    wgmma_fence();
    start_scores(slot[0], q, scores[0]);
    finish_scores<0>(slot[0], scores[0]);
    release<1>(slot, At::kEmptyK);
    softmax.admit(scores, p_.scale_log2, by);  // nothing is relative to anything yet
    softmax.exponentiate(scores[0], p_.scale_log2);
    pack_probabilities<T>(scores[0], p[0]);
    pin(out);
    wgmma_fence();
    start_out(slot, p, out);
    finish_out(slot, p, out);
  }

  // In shared memory, from buffers_ on.
  static constexpr uint32_t kBufferK = offsetof(Smem, k);
  static constexpr uint32_t kBufferV = offsetof(Smem, v);

  const FineParams& p_;
  Smem& s_;
  const int half_;
  const uint32_t barriers_, buffers_;
};

}  // namespace vsa::cuda::sm90
