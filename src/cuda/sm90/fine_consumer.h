// A consumer of the fine kernel: a warpgroup that holds 64 query rows in registers and passes over
// their keys, two slots (128 keys) at a time. Device-only.
//
// Two, because what comes with every turn besides products and exponentials (maxima across lanes,
// barriers, waits) takes as long for one.
// Registers of a thread at head_dim 128: q 32, scores 64, probabilities 32, out 64, state 4.
#pragma once

#include <cstddef>

#include "src/cuda/sm90/fine_epilogue.h"
#include "src/cuda/sm90/fine_params.h"
#include "src/cuda/sm90/fine_slots.h"
#include "src/cuda/sm90/fine_softmax.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim>
class Consumer {
 public:
  using Smem = FineSmem<kHeadDim>;
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
    for (int32_t item = static_cast<int32_t>(blockIdx.x); item < p_.num_items;) {
      uint32_t parity = note() >> 16;
      barrier_wait(smem_address(&s_.full_q[half_]), parity);
      // Read again wherever it is needed: the registers are for products.
      const ItemHalf& of = s_.item[parity][half_];
      uint32_t q[kSteps][4];
      load_q(q);
      release(&s_.empty_q[half_]);

      float out[kHeadDim / 2] = {};
      SoftmaxState softmax;
      Epilogue<T, kHeadDim>(p_, item, half_).prefetch_gate(of.block);
      attend(of, q, out, softmax);
      release(&s_.meet);
      softmax.finish();
      item = of.item;
      Epilogue<T, kHeadDim>(p_, item, half_).store(of.block, out, softmax);
      item += static_cast<int32_t>(gridDim.x);

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
  /// The A operand of all products with q, from its swizzled buffer.
  __device__ __forceinline__ void load_q(uint32_t (&q)[kSteps][4]) const {
    const uint32_t buffer = smem_address(s_.q[half_]);
    const uint32_t row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t piece = static_cast<uint32_t>(i % 4 * 2) + threadIdx.x % 32 / 16;
      load_matrices(q[i],
                    buffer + static_cast<uint32_t>(i / 4 * kSlabBytes) + swizzled(row, piece));
#pragma unroll
      for (int j = 0; j < 4; ++j) q[i][j] ^= p_.q_sign;
    }
  }

  /// This warp is done with what the barrier guards.
  __device__ __forceinline__ void release(uint64_t* barrier) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(smem_address(barrier));
  }

  /// The next kCount slots of an item.
  template <int kCount>
  __device__ __forceinline__ Slots take(Rings& rings, int32_t& i, int32_t num_common) const {
    return rings.template take<kCount>(i, num_common, half_);
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

  /// Waits until slots are full: of `keys` the keys, of `values` the values.
  template <int kKeys, int kValues>
  __device__ __forceinline__ void wait_full(const Slots& keys, const Slots& values) const {
    bool full = true;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) {
      full &= barrier_try(barriers_ + kFullK + keys[c].offset(), keys[c].parity());
    }
#pragma unroll
    for (int c = 0; c < kValues; ++c) {
      full &= barrier_try(barriers_ + kFullV + values[c].offset(), values[c].parity());
    }
    if (__builtin_expect(full, 1)) return;
#pragma unroll
    for (int c = 0; c < kKeys; ++c) {
      barrier_wait(barriers_ + kFullK + keys[c].offset(), keys[c].parity());
    }
#pragma unroll
    for (int c = 0; c < kValues; ++c) {
      barrier_wait(barriers_ + kFullV + values[c].offset(), values[c].parity());
    }
  }

  /// Rows of a slot that hold a token, of which its keys are full.
  __device__ __forceinline__ uint64_t row_bits(const Slot& slot) const {
    return load_shared64(barriers_ + kRowBits + slot.offset());
  }
  template <int kCount>
  __device__ __forceinline__ bool all_rows_full(const Slots& slots) const {
    uint64_t bits = ~uint64_t{0};
#pragma unroll
    for (int c = 0; c < kCount; ++c) bits &= row_bits(slots[c]);
    return bits == ~uint64_t{0};
  }

  /// This warp is done with the slots that such barriers guard.
  template <int kCount>
  __device__ __forceinline__ void release(const Slots& slots, uint32_t empty) const {
    __syncwarp();
    if (threadIdx.x % 32 != 0) return;
#pragma unroll
    for (int c = 0; c < kCount; ++c) barrier_arrive(barriers_ + empty + slots[c].offset());
  }

  /// Starts scores = q k for the keys of a slot.
  __device__ __forceinline__ void start_scores(const Slot& slot, const uint32_t (&q)[kSteps][4],
                                               float (&scores)[kScores]) const {
    const Descriptor k(k_descriptor(buffers_ + kBufferK + slot.number() * Smem::kBufferBytes));
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
  template <bool kMasked, int kPending>
  __device__ __forceinline__ void finish_scores(const Slot& slot, float (&scores)[kScores]) const {
    wgmma_wait<kPending>();
    pin(scores);
    if constexpr (kMasked) mask_scores(scores, row_bits(slot));
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
    release<kCount>(slots, kEmptyV);
  }

  /// All keys of this half of the item.
  __device__ __forceinline__ void attend(const ItemHalf& of, uint32_t (&q)[kSteps][4],
                                         float (&out)[kHeadDim / 2], SoftmaxState& softmax) {
    const int32_t num_common = of.num_common;
    const int32_t num_slots = num_common + of.num_own[half_];
    int32_t i = 0;
    Rings rings = noted_rings();
    if (num_slots % 2 != 0) attend_one(take<1>(rings, i, num_common), q, out, softmax);
    if (num_slots < 2) return;

    Slots now = take<2>(rings, i, num_common);
    float scores[2][kScores];
    uint32_t p[2][kKeySteps][4];
    wait_full<2, 0>(now, now);
    pin(scores[0]);
    pin(scores[1]);
    wgmma_fence();
    start_scores(now[0], q, scores[0]);
    start_scores(now[1], q, scores[1]);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      c == 0 ? finish_scores<true, 1>(now[c], scores[c])
             : finish_scores<true, 0>(now[c], scores[c]);
      float by[2];
      if (softmax.admit(scores[c], p_.scale_log2, by)) {
        rescale_rows(out, by);
        if (c == 1) rescale_rows(scores[0], by);
      }
      softmax.exponentiate(scores[c], p_.scale_log2);
    }
    release<2>(now, kEmptyK);
    pack_probabilities<T>(scores[0], p[0]);
    pack_probabilities<T>(scores[1], p[1]);

    Slots next = take<2>(rings, i, num_common);  // beyond the end nobody looks
    // Most slots have a token in every row; they come first in each list.
    while (true) {
#pragma unroll 1
      for (; i <= num_slots;
           turn<false>(next, now, q, scores, p, out, softmax, rings, i, num_common)) {
        wait_full<2, 2>(next, now);
        if (!all_rows_full<2>(next)) break;
      }
      if (i > num_slots) break;
      turn<true>(next, now, q, scores, p, out, softmax, rings, i, num_common);
    }
    wait_full<0, 2>(now, now);
    pin(out);
    wgmma_fence();
    start_out(now, p, out);
    finish_out(now, p, out);
  }

  /// out += p v of slots `now` beside scores = q k of slots `next`, whose probabilities become p;
  /// then these are `now`, and `next` the slots after them.
  ///   tensor cores  | q k (0)   | q k (1)          | p v                |
  ///   this warp     | issue, wait | maxima (0), issue | exp (0), maxima (1), wait | exp (1), pack
  template <bool kMasked>
  __device__ __forceinline__ void turn(Slots& next, Slots& now, const uint32_t (&q)[kSteps][4],
                                       float (&scores)[2][kScores], uint32_t (&p)[2][kKeySteps][4],
                                       float (&out)[kHeadDim / 2], SoftmaxState& softmax,
                                       Rings& rings, int32_t& i, int32_t num_common) const {
    // Carried over the loop, slots are not known to be the same in all lanes, and a descriptor made
    // of them would be moved to uniform registers product by product.
    const Slots keys{uniform(next.bytes)};
    const Slots values{uniform(now.bytes)};
    float by[2] = {1.0F, 1.0F};
    float by_second[2] = {1.0F, 1.0F};
    pin(scores[0]);
    pin(scores[1]);
    wgmma_fence();
    start_scores(keys[0], q, scores[0]);
    start_scores(keys[1], q, scores[1]);
    finish_scores<kMasked, 1>(next[0], scores[0]);
    bool grown = softmax.admit(scores[0], p_.scale_log2, by);
    pin(out);
    wgmma_fence();
    start_out(values, p, out);
    softmax.exponentiate(scores[0], p_.scale_log2);
    finish_scores<kMasked, 1>(next[1], scores[1]);
    release<2>(next, kEmptyK);
    grown |= softmax.admit(scores[1], p_.scale_log2, by_second);
    finish_before_wait(softmax.sum[0] + softmax.sum[1]);
    finish_out(now, p, out);
    if (__builtin_expect(grown, 0)) {
      rescale_rows(scores[0], by_second);
#pragma unroll
      for (int row = 0; row < 2; ++row) by[row] *= by_second[row];
      rescale_rows(out, by);
    }
    now = next;
    next = take<2>(rings, i, num_common);
    softmax.exponentiate(scores[1], p_.scale_log2);
    pack_probabilities<T>(scores[0], p[0]);
    pack_probabilities<T>(scores[1], p[1]);
  }

  /// A slot that has no second.
  __device__ __forceinline__ void attend_one(const Slots& slot, uint32_t (&q)[kSteps][4],
                                             float (&out)[kHeadDim / 2], SoftmaxState& softmax) {
    float scores[kScores];
    uint32_t p[1][kKeySteps][4];
    float by[2];
    wait_full<1, 1>(slot, slot);
    pin(scores);
    wgmma_fence();
    start_scores(slot[0], q, scores);
    finish_scores<true, 0>(slot[0], scores);
    release<1>(slot, kEmptyK);
    softmax.admit(scores, p_.scale_log2, by);  // nothing is relative to anything yet
    softmax.exponentiate(scores, p_.scale_log2);
    pack_probabilities<T>(scores, p[0]);
    pin(out);
    wgmma_fence();
    start_out(slot, p, out);
    finish_out(slot, p, out);
  }

  // In shared memory, from barriers_ and buffers_ on.
  static constexpr uint32_t kFullK = 0;
  static constexpr uint32_t kFullV = offsetof(Smem, full_v) - offsetof(Smem, full_k);
  static constexpr uint32_t kEmptyK = offsetof(Smem, empty_k) - offsetof(Smem, full_k);
  static constexpr uint32_t kEmptyV = offsetof(Smem, empty_v) - offsetof(Smem, full_k);
  static constexpr uint32_t kRowBits = offsetof(Smem, row_bits) - offsetof(Smem, full_k);
  static constexpr uint32_t kBufferK = offsetof(Smem, k);
  static constexpr uint32_t kBufferV = offsetof(Smem, v);

  const FineParams& p_;
  Smem& s_;
  const int half_;
  const uint32_t barriers_, buffers_;
};

}  // namespace vsa::cuda::sm90
