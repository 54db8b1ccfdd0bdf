// A consumer of the fine kernel: a warpgroup that holds 64 query rows in registers and passes over
// their keys. Device-only.
//
// Registers of a thread at head_dim 128: q 32, scores 32, probabilities 16, out 64, state 4.
//   step i:  issue scores(i) = q k(i)     wait   softmax of scores(i)     wait   scale out
//            issue out += p(i-1) v(i-1)          while out is summed up          p(i) from scores
#pragma once

#include "src/cuda/sm90/fine_epilogue.h"
#include "src/cuda/sm90/fine_params.h"
#include "src/cuda/sm90/fine_softmax.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim>
class Consumer {
 public:
  using Smem = FineSmem<kHeadDim>;
  static constexpr int kSteps = kHeadDim / 16;  // products of q k, 16 at a time
  static constexpr int kKeySteps = kBlockTokens / 16;

  __device__ __forceinline__ Consumer(const FineParams& params, Smem& smem, int half)
      : p_(params), s_(smem), half_(half), lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run() {
    if (half_ == 1 && p_.take_turns != 0) named_arrive(kTurn, 256);  // the first turn is half 0's
    uint32_t parity = 0;                                             // of the q barriers
    for (int32_t item = static_cast<int32_t>(blockIdx.x); item < p_.num_items;
         item += static_cast<int32_t>(gridDim.x), parity ^= 1) {
      barrier_wait(smem_address(&s_.full_q[half_]), parity);
      const ScheduleHead head = s_.head[half_];
      const Block block = s_.q_block[half_];
      uint32_t q[kSteps][4];
      load_q(q);
      release(&s_.empty_q[half_]);

      const int32_t head_idx = item / p_.num_pairs;
      const int32_t q_block = item % p_.num_pairs * 2 + half_;
      Epilogue<T, kHeadDim> epilogue{p_,
                                     block,
                                     head_idx / p_.num_heads,
                                     head_idx % p_.num_heads,
                                     q_block / p_.q_plan.blocks_per_tile,
                                     {}};
      float out[kHeadDim / 2] = {};
      SoftmaxState softmax;
      attend(head, q, out, softmax, epilogue);
      epilogue.store(out, softmax);

      advance_rings(before_, head);
      // A slot that only the other consumer reads goes through phases unseen. Meeting here makes
      // all of them past, so that the parities of the next item mean what they say.
      if (head.num_own[0] + head.num_own[1] > 0) named_sync(kMeet, 256);
    }
  }

 private:
  static constexpr uint32_t kMeet = 1;  // named barriers: both consumers at the end of an item
  static constexpr uint32_t kTurn = 2;  // and 3: the turn of a half, given by the other

  /// The A operand of all products with q, from its swizzled tile.
  __device__ __forceinline__ void load_q(uint32_t (&q)[kSteps][4]) const {
    const uint32_t tile = smem_address(s_.q[half_]);
    const uint32_t row = threadIdx.x / 32 % 4 * 16 + lane_ % 16;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t piece = static_cast<uint32_t>(i % 4 * 2) + lane_ / 16;
      load_matrices(q[i], tile + static_cast<uint32_t>(i / 4 * kSlabBytes) + swizzled(row, piece));
#pragma unroll
      for (int j = 0; j < 4; ++j) q[i][j] ^= p_.q_sign;
    }
  }

  /// This warp is done with what the barrier guards.
  __device__ __forceinline__ void release(uint64_t* barrier) const {
    __syncwarp();
    if (lane_ == 0) barrier_arrive(smem_address(barrier));
  }

  struct Slot {
    uint32_t ring, idx, parity;
  };
  __device__ __forceinline__ Slot slot(const ScheduleHead& head, int32_t i) const {
    const RingUse at = ring_use(before_, head.num_common, half_, i);
    return {at.ring, at.use % Smem::kStages, at.use / Smem::kStages & 1U};
  }

  /// Waits for the keys of a slot and starts scores = q k.
  __device__ __forceinline__ uint64_t start_scores(const Slot& at, const uint32_t (&q)[kSteps][4],
                                                   float (&scores)[kScores]) const {
    barrier_wait(smem_address(&s_.full_k[at.ring][at.idx]), at.parity);
    const uint64_t bits = s_.row_bits[at.ring][at.idx];
    const uint64_t k = k_descriptor(smem_address(s_.k[at.ring][at.idx]));
    pin(scores);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      wgmma<T, 0>(scores, q[i], k + k_advance(i), i > 0 ? 1 : 0);
    }
    wgmma_commit();
    pin(scores);
    return bits;
  }

  /// Waits for the values of a slot and starts out += p v.
  __device__ __forceinline__ void start_out(const Slot& at, const uint32_t (&p)[kKeySteps][4],
                                            float (&out)[kHeadDim / 2]) const {
    barrier_wait(smem_address(&s_.full_v[at.ring][at.idx]), at.parity);
    const uint64_t v = v_descriptor(smem_address(s_.v[at.ring][at.idx]));
    pin(out);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kKeySteps; ++i) {
      wgmma<T, 1>(out, p[i], v + v_advance(i), 1);
    }
    wgmma_commit();
    pin(out);
  }

  /// All keys of this half of the item.
  __device__ __forceinline__ void attend(const ScheduleHead& head, uint32_t (&q)[kSteps][4],
                                         float (&out)[kHeadDim / 2], SoftmaxState& softmax,
                                         Epilogue<T, kHeadDim>& epilogue) const {
    const int32_t num_steps = head.num_common + (half_ == 0 ? head.num_own[0] : head.num_own[1]);
    if (num_steps == 0) {
      epilogue.load_gate();
      return;
    }
    float scores[kScores];
    uint32_t p[kKeySteps][4];
    float rescale[2];

    Slot at = slot(head, 0);
    uint64_t bits = start_scores(at, q, scores);
    wgmma_wait<0>();
    pin(scores);
    release(&s_.empty_k[at.ring][at.idx]);
    if (bits != ~uint64_t{0}) mask_scores(scores, bits);
    softmax.step(scores, p_.scale_log2, rescale);
    pack_probabilities<T>(scores, p);

    // Steps in which the consumers take turns at the tensor cores: as many as both have.
    const int32_t num_turns =
        p_.take_turns != 0 ? head.num_common + min(head.num_own[0], head.num_own[1]) : 0;
    for (int32_t i = 1; i < num_steps; ++i) {
      const Slot next = slot(head, i);
      const bool in_turn = i < num_turns;
      if (in_turn) named_sync(kTurn + half_, 256);
      bits = start_scores(next, q, scores);
      start_out(at, p, out);
      if (in_turn) named_arrive(kTurn + 1 - half_, 256);
      wgmma_wait<1>();
      pin(scores);
      release(&s_.empty_k[next.ring][next.idx]);
      if (bits != ~uint64_t{0}) mask_scores(scores, bits);
      softmax.step(scores, p_.scale_log2, rescale);
      finish_before_wait(softmax.sum[0] + softmax.sum[1]);
      wgmma_wait<0>();
      pin(out);
      pin(p);
      release(&s_.empty_v[at.ring][at.idx]);
      // Once the largest score of a row was seen nothing changes; times 1 is the same bits.
      if (__any_sync(~0U, rescale[0] != 1.0F || rescale[1] != 1.0F)) rescale_rows(out, rescale);
      pack_probabilities<T>(scores, p);
      at = next;
    }
    start_out(at, p, out);
    epilogue.load_gate();
    wgmma_wait<0>();
    pin(out);
    release(&s_.empty_v[at.ring][at.idx]);
    softmax.finish();
  }

  const FineParams& p_;
  Smem& s_;
  const int half_;
  const uint32_t lane_;
  uint32_t before_[2] = {0, 0};  // uses of each ring by earlier items
};

}  // namespace vsa::cuda::sm90
