// A consumer of the fine kernel: a warpgroup that holds 64 query rows in registers and passes over
// their keys. Device-only.
//
// Products run one step ahead, so that softmax waits for none:
//   step i:  issue out += p(i-1) v(i-1)     softmax of scores(i)     wait     scale out
//            issue scores(i+1) = q k(i+1)   while both run                    p(i) from scores(i)
// Registers of a thread at head_dim 128: q 32, scores 2 x 32, probabilities 16, out 64, state 4.
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
    uint32_t parity = 0;  // of the q barriers
    uint32_t meet_parity = 0;
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
      const bool has_own = head.num_own[0] + head.num_own[1] > 0;
      if (has_own) release(&s_.meet);
      epilogue.store(out, softmax);

      advance_rings(before_, head);
      // A slot that only the other consumer reads goes through phases unseen. Meeting here makes
      // all of them past, so that the parities of the next item mean what they say.
      if (has_own) {
        barrier_wait(smem_address(&s_.meet), meet_parity);
        meet_parity ^= 1;
      }
    }
  }

 private:
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

  /// A slot of either ring (2 i + parity of its phase for the i-th), in one register.
  struct Slot {
    uint32_t bits;
    __device__ __forceinline__ uint32_t parity() const { return bits & 1U; }
    __device__ __forceinline__ uint64_t* of(uint64_t (&barriers)[2][Smem::kStages]) const {
      return &barriers[0][0] + bits / 2;
    }
    __device__ __forceinline__ uint8_t* of(
        uint8_t (&tiles)[2][Smem::kStages][Smem::kTileBytes]) const {
      return &tiles[0][0][0] + bits / 2 * Smem::kTileBytes;
    }
  };
  __device__ __forceinline__ Slot slot(const ScheduleHead& head, int32_t i) const {
    const RingUse at = ring_use(before_, head.num_common, half_, i);
    const uint32_t idx = at.ring * Smem::kStages + at.use % Smem::kStages;
    return {idx * 2 + (at.use / Smem::kStages & 1U)};
  }

  /// Waits for the keys of a slot and starts scores = q k.
  __device__ __forceinline__ uint64_t start_scores(const Slot& at, const uint32_t (&q)[kSteps][4],
                                                   float (&scores)[kScores]) {
    barrier_wait(smem_address(at.of(s_.full_k)), at.parity());
    const uint64_t bits = *at.of(s_.row_bits);
    const Descriptor k(k_descriptor(smem_address(at.of(s_.k))));
    pin(scores);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      wgmma<T, 0>(scores, q[i], k.advanced(k_advance(i)), i > 0 ? 1 : 0);
    }
    wgmma_commit();
    pin(scores);
    return bits;
  }

  /// Waits for the values of a slot and starts out += p v.
  __device__ __forceinline__ void start_out(const Slot& at, const uint32_t (&p)[kKeySteps][4],
                                            float (&out)[kHeadDim / 2]) {
    barrier_wait(smem_address(at.of(s_.full_v)), at.parity());
    const Descriptor v(v_descriptor(smem_address(at.of(s_.v))));
    pin(out);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kKeySteps; ++i) {
      wgmma<T, 1>(out, p[i], v.advanced(v_advance(i)), 1);
    }
    wgmma_commit();
    pin(out);
  }

  /// All keys of this half of the item.
  __device__ __forceinline__ void attend(const ScheduleHead& head, uint32_t (&q)[kSteps][4],
                                         float (&out)[kHeadDim / 2], SoftmaxState& softmax,
                                         Epilogue<T, kHeadDim>& epilogue) {
    const int32_t num_steps = head.num_common + (half_ == 0 ? head.num_own[0] : head.num_own[1]);
    if (num_steps == 0) {
      epilogue.load_gate();
      return;
    }
    float even[kScores], odd[kScores];
    uint32_t p[kKeySteps][4];
    float rescale[2];

    Slot last = slot(head, 0);  // whose values are next
    uint64_t bits = start_scores(last, q, even);
    wgmma_wait<0>();
    pin(even);
    release(last.of(s_.empty_k));
    if (num_steps > 1) {
      const Slot at = slot(head, 1);
      const uint64_t next_bits = start_scores(at, q, odd);
      use_scores(even, bits, softmax, rescale);
      wgmma_wait<0>();
      pin(odd);
      release(at.of(s_.empty_k));
      pack_probabilities<T>(even, p);
      bits = next_bits;
      int32_t i = 1;
      Slot now = at;
      Slot next = slot(head, 2);
      for (; i + 2 < num_steps; i += 2) {
        step(head, i, q, odd, even, p, out, softmax, last, now, next, bits);
        step(head, i + 1, q, even, odd, p, out, softmax, last, now, next, bits);
      }
      if (i + 1 < num_steps) {
        step(head, i, q, odd, even, p, out, softmax, last, now, next, bits);
#pragma unroll
        for (int j = 0; j < kScores; ++j) odd[j] = even[j];
      }
      start_out(last, p, out);
      use_scores(odd, bits, softmax, rescale);
      wgmma_wait<0>();
      pin(out);
      pin(p);
      release(last.of(s_.empty_v));
      rescale_out(out, rescale);
      pack_probabilities<T>(odd, p);
      last = now;
    } else {
      use_scores(even, bits, softmax, rescale);
      pack_probabilities<T>(even, p);
    }
    start_out(last, p, out);
    epilogue.load_gate();
    wgmma_wait<0>();
    pin(out);
    release(last.of(s_.empty_v));
    softmax.finish();
  }

  /// Step i, not the last: `scores` are those of step i, `next_scores` become those of step i + 1.
  /// @param last  slot of step i - 1; becomes that of step i
  /// @param now   slot of step i; becomes that of step i + 1, as `bits`
  /// @param next  slot of step i + 1; becomes that of step i + 2, which need not exist
  __device__ __forceinline__ void step(const ScheduleHead& head, int32_t i,
                                       const uint32_t (&q)[kSteps][4], float (&scores)[kScores],
                                       float (&next_scores)[kScores], uint32_t (&p)[kKeySteps][4],
                                       float (&out)[kHeadDim / 2], SoftmaxState& softmax,
                                       Slot& last, Slot& now, Slot& next, uint64_t& bits) {
    float rescale[2];
    start_out(last, p, out);
    const uint64_t next_bits = start_scores(next, q, next_scores);
    const Slot after = slot(head, i + 2);
    use_scores(scores, bits, softmax, rescale);
    wgmma_wait<0>();
    pin(next_scores);
    pin(out);
    pin(p);
    release(last.of(s_.empty_v));
    release(next.of(s_.empty_k));
    rescale_out(out, rescale);
    pack_probabilities<T>(scores, p);
    last = now;
    now = next;
    next = after;
    bits = next_bits;
  }

  /// Turns scores into probabilities while products run.
  __device__ __forceinline__ void use_scores(float (&scores)[kScores], uint64_t bits,
                                             SoftmaxState& softmax, float (&rescale)[2]) {
    if (bits != ~uint64_t{0}) mask_scores(scores, bits);
    softmax.step(scores, p_.scale_log2, rescale);
    finish_before_wait(softmax.sum[0] + softmax.sum[1]);
  }

  /// Times 1 is the same bits: most steps find no larger maximum and leave `out` as it is.
  __device__ __forceinline__ static void rescale_out(float (&out)[kHeadDim / 2],
                                                     const float (&by)[2]) {
    if (__any_sync(~0U, by[0] != 1.0F || by[1] != 1.0F)) rescale_rows(out, by);
  }

  const FineParams& p_;
  Smem& s_;
  const int half_;
  const uint32_t lane_;
  uint32_t before_[2] = {0, 0};  // uses of each ring by earlier items
};

}  // namespace vsa::cuda::sm90
