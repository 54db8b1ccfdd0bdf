// A consumer of the forward fine kernel at head_dim 64: a warpgroup that holds the 64 rows of one
// query block in registers and processes their keys, one slot (64 keys) in an iteration. It has a
// ring and a producer of its own and shares nothing with the other consumers. Device-only.
//
//   wait full_q -> q to registers, arrive on empty_q
//   the first slot: s = q k^T, maximum, p = exp2(scale_log2 (s - maximum))
//   iterations (pipeline_step): s = q k^T of the next slot beside out += p v of the slot before
//   the last slot: out += p v
//   epilogue stores out -> the next unit
//
// Registers of a thread: q 16, scores 32, probabilities 16, out 32, state 6.
#pragma once

#include "src/cuda/fine/sm90/fine_epilogue.h"
#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/fine_query.h"
#include "src/cuda/fine/sm90/fine_recompute.h"
#include "src/cuda/fine/sm90/fine_slots.h"
#include "src/cuda/fine/sm90/fine_softmax.h"
#include "src/cuda/fine/sm90/slot_metadata.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim>
class BlockConsumer {
 public:
  using Smem = FineSmem<kHeadDim>;
  using Offsets = SlotOffsets<Smem>;
  using WorkUnit = sm90::WorkUnit<kHeadDim>;
  using Position = RingPosition<Smem::kStages>;
  static constexpr int kSteps = kHeadDim / 16;         // wgmma of k = 16 along head_dim
  static constexpr int kKeySteps = kBlockTokens / 16;  // wgmma of k = 16 along the keys of a slot

  __device__ __forceinline__ BlockConsumer(const FineParams& params, Smem& smem, int consumer)
      : p_(params),
        s_(smem),
        consumer_(consumer),
        barriers_(hide_from_compiler(smem_address(&smem.full_k[consumer][0]))),
        keys_(hide_from_compiler(
            static_cast<uint32_t>(k_descriptor(smem_address(smem.k[consumer]))))),
        values_(hide_from_compiler(
            static_cast<uint32_t>(v_descriptor(smem_address(smem.v[consumer]))))) {}

  __device__ __forceinline__ void run() {
    Position position;
    uint32_t parity = 0;  // of the unit: of the q barriers and of FineSmem::work
    const int32_t num_units = WorkUnit::count(p_.num_items, 0);
    const int32_t stride = WorkUnit::num_first_units(gridDim.x);
    for (int32_t unit = WorkUnit::first_unit(blockIdx.x, consumer_, gridDim.x); unit < num_units;
         unit += stride) {
      barrier_wait(smem_address(&s_.full_q[consumer_]), parity);
      const ConsumerWork& work = s_.work[parity][consumer_];
      uint32_t q[kSteps][4];
      load_query(q, smem_address(s_.q[consumer_]), p_.q_sign, work.block.len());
      barrier_arrive(smem_address(&s_.empty_q[consumer_]));

      float out[kHeadDim / 2] = {};
      SoftmaxState softmax;
      const Epilogue<T, kHeadDim> epilogue(p_, WorkUnit::item(unit, 0));
      epilogue.prefetch_gate(work.block);
      position = attend(position, work.num_exclusive[WorkUnit::half(unit, 0)],
                        work.has_partial != 0, q, out, softmax);
      softmax.reduce_sums();
      epilogue.store(work.block, work.q_block, out, softmax);
      parity ^= 1;
    }
  }

 private:
  __device__ __forceinline__ uint32_t barrier_of(const Position& at) const {
    return barriers_ + at.slot() * 8;
  }
  __device__ __forceinline__ uint32_t buffer_of(const Position& at) const {
    return smem_address(s_.k[consumer_]) + at.slot() * Smem::kBufferBytes;
  }
  /// The lower 32 bits of a slot's descriptor, in a uniform register, from those of slot 0.
  __device__ __forceinline__ static uint32_t descriptor(uint32_t of_slot_0, const Position& at) {
    return warp_uniform(of_slot_0 + at.slot() * (Smem::kBufferBytes / 16));
  }

  /// Starts scores = q k^T.
  /// @param keys  lower 32 bits of the descriptor of the keys
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
  __device__ __forceinline__ uint64_t row_bits(const Position& at) const {
    return read_row_bits(barrier_of(at) + Offsets::kRowBits);
  }

  /// Attention of the query block to all keys of the unit, which begin at `at`. Returns the
  /// position after them.
  /// @param has_partial  whether a slot may have rows without a token
  __device__ __forceinline__ Position attend(Position at, int32_t num_slots, bool has_partial,
                                             const uint32_t (&q)[kSteps][4],
                                             float (&out)[kHeadDim / 2],
                                             SoftmaxState& softmax) const {
    if (num_slots == 0) return at;
    float scores[1][kScores];
    float factor[2];  // not applied: out and the sums are still 0
    uint32_t p[kKeySteps][4];
    barrier_wait(barrier_of(at) + Offsets::kFullK, at.parity());
    fence_registers(scores[0]);
    wgmma_fence();
    start_scores(descriptor(keys_, at), q, scores[0]);
    wgmma_wait<0>();
    fence_registers(scores[0]);
    if (has_partial) mask_scores(scores[0], row_bits(at), p_.last_key_score);
    softmax.update_max(scores, p_.scale_log2, factor);
    softmax.exponentiate(scores[0], p_.scale_log2);
    warp_arrive(barrier_of(at) + Offsets::kEmptyK);
    pack_probabilities<T>(scores[0], p);

#pragma unroll 1
    for (; num_slots > 1; --num_slots)
      at = pipeline_step(at, has_partial, q, scores, p, out, softmax);

    barrier_wait(barrier_of(at) + Offsets::kFullV, at.parity());
    fence_registers(out);
    wgmma_fence();
    start_out(descriptor(values_, at), p, out);
    finish_out(at, p, out);
    return at.next();
  }

  /// One iteration: computes out += p v of slot `now` at the same time as scores = q k^T of the
  /// next slot, whose probabilities replace p. Returns the position of the next slot.
  __device__ __forceinline__ Position pipeline_step(const Position& now, bool has_partial,
                                                    const uint32_t (&q)[kSteps][4],
                                                    float (&scores)[1][kScores],
                                                    uint32_t (&p)[kKeySteps][4],
                                                    float (&out)[kHeadDim / 2],
                                                    SoftmaxState& softmax) const {
    const Position next = now.next();
    const uint32_t keys = descriptor(keys_, next);
    const uint32_t values = descriptor(values_, now);
    const bool keys_full = barrier_try_wait(barrier_of(next) + Offsets::kFullK, next.parity());
    const bool values_full = barrier_try_wait(barrier_of(now) + Offsets::kFullV, now.parity());
    if (!__builtin_expect(keys_full && values_full, 1)) {
      barrier_wait(barrier_of(next) + Offsets::kFullK, next.parity());
      barrier_wait(barrier_of(now) + Offsets::kFullV, now.parity());
    }
    fence_registers(scores[0]);
    fence_registers(out);
    wgmma_fence();
    start_scores(keys, q, scores[0]);
    start_out(values, p, out);
    wgmma_wait<1>();
    fence_registers(scores[0]);
    if (__builtin_expect(has_partial, 0)) mask_scores(scores[0], row_bits(next), p_.last_key_score);
    float sums[2] = {0.0F, 0.0F};
    softmax.exponentiate(scores[0], p_.scale_log2, sums);
    const bool needs_rescale = softmax.needs_rescale(sums);
    sums[0] += softmax.sum[0];
    sums[1] += softmax.sum[1];
    finish_before_wait(sums[0] + sums[1]);
    finish_out(now, p, out);
    if (__builtin_expect(needs_rescale, 0)) {
      recompute_with_new_max<T>(q, {buffer_of(next)}, {row_bits(next)}, p_.last_key_score,
                                p_.scale_log2, scores, softmax, out);
    } else {
      softmax.sum[0] = sums[0];
      softmax.sum[1] = sums[1];
    }
    warp_arrive(barrier_of(next) + Offsets::kEmptyK);
    pack_probabilities<T>(scores[0], p);
    return next;
  }

  /// Waits for out += p v and releases the values.
  __device__ __forceinline__ void finish_out(const Position& at, uint32_t (&p)[kKeySteps][4],
                                             float (&out)[kHeadDim / 2]) const {
    wgmma_wait<0>();
    fence_registers(out);
    fence_registers(p);
    warp_arrive(barrier_of(at) + Offsets::kEmptyV);
  }

  const FineParams& p_;
  Smem& s_;
  const int consumer_;
  const uint32_t barriers_;       // address of full_k of the ring's slot 0
  const uint32_t keys_, values_;  // lower 32 bits of slot 0's descriptors
};

}  // namespace vsa::cuda::sm90
