// A consumer that is alone: a warpgroup that holds the 64 query rows of half a pair in registers
// and passes over their keys, a slot (64 keys) at a time. Device-only.
//
// Registers of a thread at head_dim 64: q 16, scores 32, probabilities 16, out 32, state 6.
#pragma once

#include "src/cuda/fine/sm90/fine_epilogue.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_probabilities.h"
#include "src/cuda/fine/sm90/fine_query.h"
#include "src/cuda/fine/sm90/fine_slots.h"
#include "src/cuda/fine/sm90/fine_softmax.h"
#include "src/cuda/fine/sm90/slot_words.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim>
class HalfConsumer {
 public:
  using Smem = FineSmem<kHeadDim>;
  using At = SlotOffsets<Smem>;
  using Unit = sm90::Unit<kHeadDim>;
  using Use = RingUse<Smem::kStages>;
  static constexpr int kSteps = kHeadDim / 16;  // products of q k, 16 at a time
  static constexpr int kKeySteps = kBlockTokens / 16;

  __device__ __forceinline__ HalfConsumer(const FineParams& params, Smem& smem, int consumer)
      : p_(params),
        s_(smem),
        consumer_(consumer),
        barriers_(opaque(smem_address(&smem.full_k[consumer][0]))),
        keys_(opaque(static_cast<uint32_t>(k_descriptor(smem_address(smem.k[consumer]))))),
        values_(opaque(static_cast<uint32_t>(v_descriptor(smem_address(smem.v[consumer]))))) {}

  __device__ __forceinline__ void run() {
    Use use;
    uint32_t parity = 0;  // of the q barriers
    const int32_t num_units = Unit::count(p_.num_items, 0);
    const int32_t stride = Unit::num_first(gridDim.x);
    for (int32_t unit = Unit::first(blockIdx.x, consumer_, gridDim.x); unit < num_units;
         unit += stride) {
      barrier_wait(smem_address(&s_.full_q[consumer_]), parity);
      const ItemHalf& of = s_.item[parity][consumer_];
      uint32_t q[kSteps][4];
      load_query(q, smem_address(s_.q[consumer_]), p_.q_sign, of.block.len());
      barrier_arrive(smem_address(&s_.empty_q[consumer_]));

      float out[kHeadDim / 2] = {};
      SoftmaxState softmax;
      const Epilogue<T, kHeadDim> epilogue(p_, Unit::item(unit, 0));
      epilogue.prefetch_gate(of.block);
      use = attend(use, of.num_own[Unit::half(unit, 0)], of.has_short != 0, q, out, softmax);
      softmax.finish();
      epilogue.store(of.block, of.q_block, out, softmax);
      parity ^= 1;
    }
  }

 private:
  __device__ __forceinline__ uint32_t barrier_of(const Use& use) const {
    return barriers_ + use.slot() * 8;
  }
  __device__ __forceinline__ uint32_t buffer_of(const Use& use) const {
    return smem_address(s_.k[consumer_]) + use.slot() * Smem::kBufferBytes;
  }
  /// The lower half of a slot's descriptor, in a uniform register.
  __device__ __forceinline__ static uint32_t descriptor(uint32_t of_first, const Use& use) {
    return uniform(of_first + use.slot() * (Smem::kBufferBytes / 16));
  }

  /// Starts scores = q k.
  __device__ __forceinline__ static void start_scores(uint32_t keys, const uint32_t (&q)[kSteps][4],
                                                      float (&scores)[kScores]) {
    Descriptor k(k_descriptor(0));
    k.low = keys;
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      wgmma<T, 0>(scores, q[j], k.advanced(k_advance(j)), j > 0 ? 1 : 0);
    }
    wgmma_commit();
  }

  /// Starts out += p v.
  __device__ __forceinline__ static void start_out(uint32_t values,
                                                   const uint32_t (&p)[kKeySteps][4],
                                                   float (&out)[kHeadDim / 2]) {
    Descriptor v(v_descriptor(0));
    v.low = values;
#pragma unroll
    for (int j = 0; j < kKeySteps; ++j) wgmma<T, 1>(out, p[j], v.advanced(v_advance(j)), 1);
    wgmma_commit();
  }

  /// Rows of a slot that hold a token.
  __device__ __forceinline__ uint64_t row_bits(const Use& use) const {
    return read_row_bits(barrier_of(use) + At::kRowBits);
  }

  /// All keys of a unit, from slot `use` on. Returns the use after them.
  /// @param has_short  whether a slot may have rows without a token
  __device__ __forceinline__ Use attend(Use use, int32_t num_slots, bool has_short,
                                        const uint32_t (&q)[kSteps][4], float (&out)[kHeadDim / 2],
                                        SoftmaxState& softmax) const {
    if (num_slots == 0) return use;
    float scores[1][kScores];
    float by[2];
    uint32_t p[kKeySteps][4];
    barrier_wait(barrier_of(use) + At::kFullK, use.parity());
    pin(scores[0]);
    wgmma_fence();
    start_scores(descriptor(keys_, use), q, scores[0]);
    wgmma_wait<0>();
    pin(scores[0]);
    if (has_short) mask_scores(scores[0], row_bits(use));
    softmax.admit(scores, p_.scale_log2, by);  // nothing is relative to anything yet
    softmax.exponentiate(scores[0], p_.scale_log2);
    release(barrier_of(use) + At::kEmptyK);
    pack_probabilities<T>(scores[0], p);

#pragma unroll 1
    for (; num_slots > 1; --num_slots) use = turn(use, has_short, q, scores, p, out, softmax);

    barrier_wait(barrier_of(use) + At::kFullV, use.parity());
    pin(out);
    wgmma_fence();
    start_out(descriptor(values_, use), p, out);
    finish_out(use, p, out);
    return use.next();
  }

  /// out += p v of slot `now` beside scores = q k of the next, whose probabilities become p.
  /// Returns the next.
  __device__ __forceinline__ Use turn(const Use& now, bool has_short,
                                      const uint32_t (&q)[kSteps][4], float (&scores)[1][kScores],
                                      uint32_t (&p)[kKeySteps][4], float (&out)[kHeadDim / 2],
                                      SoftmaxState& softmax) const {
    const Use next = now.next();
    const uint32_t keys = descriptor(keys_, next);
    const uint32_t values = descriptor(values_, now);
    const bool keys_full = barrier_try(barrier_of(next) + At::kFullK, next.parity());
    const bool values_full = barrier_try(barrier_of(now) + At::kFullV, now.parity());
    if (!__builtin_expect(keys_full && values_full, 1)) {
      barrier_wait(barrier_of(next) + At::kFullK, next.parity());
      barrier_wait(barrier_of(now) + At::kFullV, now.parity());
    }
    pin(scores[0]);
    pin(out);
    wgmma_fence();
    start_scores(keys, q, scores[0]);
    start_out(values, p, out);
    wgmma_wait<1>();
    pin(scores[0]);
    if (__builtin_expect(has_short, 0)) mask_scores(scores[0], row_bits(next));
    float sums[2] = {0.0F, 0.0F};
    softmax.exponentiate(scores[0], p_.scale_log2, sums);
    const bool outgrown = softmax.outgrown(sums);
    sums[0] += softmax.sum[0];
    sums[1] += softmax.sum[1];
    finish_before_wait(sums[0] + sums[1]);
    finish_out(now, p, out);
    if (__builtin_expect(outgrown, 0)) {
      make_again<T>(q, {buffer_of(next)}, {row_bits(next)}, p_.scale_log2, scores, softmax, out);
    } else {
      softmax.sum[0] = sums[0];
      softmax.sum[1] = sums[1];
    }
    release(barrier_of(next) + At::kEmptyK);
    pack_probabilities<T>(scores[0], p);
    return next;
  }

  /// Waits for out += p v and frees the values.
  __device__ __forceinline__ void finish_out(const Use& use, uint32_t (&p)[kKeySteps][4],
                                             float (&out)[kHeadDim / 2]) const {
    wgmma_wait<0>();
    pin(out);
    pin(p);
    release(barrier_of(use) + At::kEmptyV);
  }

  const FineParams& p_;
  Smem& s_;
  const int consumer_;
  const uint32_t barriers_;       // of the ring's first slot
  const uint32_t keys_, values_;  // lower halves of its descriptors
};

}  // namespace vsa::cuda::sm90
