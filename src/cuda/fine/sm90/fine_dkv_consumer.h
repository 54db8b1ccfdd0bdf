// A consumer of the dk, dv kernel: a warpgroup that owns 64 keys and processes the queries that
// keep them, 64 in a step. Device-only.
//
//   s = k q^T   dp = v dout^T           rows are keys, columns queries
//   p = exp2(scale_log2 s - lse_log2)   dv += p dout
//   ds = p (dp - delta)                 dk += ds q      (times scale at the end)
//
// The products of step i in the order in which they are issued, and what a warp does meanwhile:
//   tensor cores  | s(i+1) | dk(i) | dp(i+1) | dv(i+1)  | s(i+2) ...
//   this warp     | wait   | p(i+1)          | ds(i+1)  |
//
// k and v stay in shared memory as A operands; q and dout are B operands.
// Registers of a thread at head_dim 128: dk 64, dv 64, s 32, dp 32, p and ds as operands 2 x 16.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_consumer.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim, int kConsumers>
class DkvConsumer {
 public:
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  static constexpr uint32_t kSlotArrivals = 32;  // of a warp on an empty barrier, see arrive_empty

  __device__ __forceinline__ DkvConsumer(const FineBackwardParams& params, Smem& smem,
                                         uint32_t consumer)
      : p_(params),
        buffers_(smem.buffers[consumer / kConsumers]),
        s_(smem.stream[consumer / kConsumers]),
        consumer_(consumer % kConsumers),
        lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run() {
    for (uint32_t parity = 0;; parity ^= 1) {
      barrier_wait(smem_address(&s_.full_owned), parity);
      const BackwardItem<kConsumers>& item = s_.item[parity];
      if (item.idx < 0) return;
      float dk[kHeadDim / 2] = {}, dv[kHeadDim / 2] = {};
      if (item.has_steps != 0) {
        accumulate(dk, dv);
      } else {
        warp_arrive(s_.empty_owned);
      }
      store(item, dk, dv);
    }
  }

 private:
  using Operand = uint32_t[kRowSteps][4];
  static_assert(Smem::kSecondStages >= 2,
                "the next step is waited for before the slot of dout is released");

  /// A factor of p as the operand of dv, divided out at the end. In f16 the probabilities of a key
  /// to which all queries attend little would otherwise be below the smallest number and vanish.
  static constexpr float kPFactor = std::is_same_v<T, __half> ? 0x1p15F : 1.0F;

  /// Starts x = a b^T, the sum over head_dim; a and b are 64 rows each in shared memory.
  __device__ __forceinline__ static void start_product(float (&x)[kScores], uint32_t a_buffer,
                                                       uint32_t b_buffer) {
    const Descriptor a(k_descriptor(warp_uniform(a_buffer)));
    const Descriptor b(k_descriptor(warp_uniform(b_buffer)));
    wgmma_fence();
    wgmma_shared_first<T>(x, a.advanced(0), b.advanced(0));
#pragma unroll
    for (int i = 1; i < kHeadDim / 16; ++i) {
      wgmma_shared<T>(x, a.advanced(k_advance(i)), b.advanced(k_advance(i)), 1);
    }
    wgmma_commit();
    fence_registers(x);
  }

  __device__ __forceinline__ void start_s(float (&s)[kScores]) {
    barrier_wait(smem_address(&s_.full_first[first_.idx()]), first_.parity());
    start_product(s, smem_address(buffers_.owned[consumer_][0]),
                  smem_address(buffers_.first[first_.idx()]));
  }
  __device__ __forceinline__ void start_dp(float (&dp)[kScores]) {
    barrier_wait(smem_address(&s_.full_second[second_.idx()]), second_.parity());
    start_product(dp, smem_address(buffers_.owned[consumer_][1]),
                  smem_address(buffers_.second[second_.idx()]));
  }

  /// The values of this lane's two columns 8 j + 2 (lane % 4) and the next, of 64 values.
  __device__ __forceinline__ float2 columns(const float (&row)[kBlockTokens], int j) const {
    return *reinterpret_cast<const float2*>(row + 8 * j + lane_ % 4 * 2);
  }

  /// Arrives on an empty barrier for this lane. Every lane arrives for itself: all lanes read
  /// statistics that a copy will overwrite, and compute-sanitizer's racecheck orders a lane's reads
  /// only before its own arrival.
  __device__ __forceinline__ static void arrive_empty(const uint64_t& empty) {
    barrier_arrive(smem_address(&empty));
  }

  /// Replaces s by p. Rows without a token have an lse that makes p 0 (QueryStatistics).
  __device__ __forceinline__ void compute_p(float (&s)[kScores]) const {
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
      const float2 lse = columns(s_.minus_lse_log2[first_.idx()], j);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        s[4 * j + c] = exp2_fast(fmaf(s[4 * j + c], p_.scale_log2, c % 2 == 0 ? lse.x : lse.y));
      }
    }
  }

  /// Replaces dp by ds.
  __device__ __forceinline__ void compute_ds(const float (&p)[kScores],
                                             float (&dp)[kScores]) const {
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
      const float2 delta = columns(s_.delta[second_.idx()], j);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        dp[4 * j + c] = p[4 * j + c] * (dp[4 * j + c] - (c % 2 == 0 ? delta.x : delta.y));
      }
    }
  }

  /// dk and dv of the owned keys over all steps of the item.
  __device__ __forceinline__ void accumulate(float (&dk)[kHeadDim / 2], float (&dv)[kHeadDim / 2]) {
    float s[kScores], dp[kScores];
    Operand p = {}, ds = {};
    fence_registers(dk);
    fence_registers(dv);
    fence_registers(p);
    fence_registers(ds);
    start_s(s);
    start_dp(dp);
    bool is_last = read_flag(s_.step[first_.idx()].is_last);
    wgmma_wait<1>();  // until s(0) is done
    fence_registers(s);
    constexpr uint32_t kNone = ~0U;
    // The slots of the step before: of q, whose dk is running, and of dout, whose dv has ended.
    struct {
      uint32_t first, second;
    } before{kNone, kNone};
    while (true) {
      compute_p(s);
      pack_operand<T>(s, p, kPFactor);
      start_accumulate<T>(dv, p, smem_address(buffers_.second[second_.idx()]));
      wgmma_wait<1>();  // until dp(i) and dk(i - 1) are done
      fence_registers(dp);
      fence_registers(ds);
      fence_registers(dk);
      if (before.first != kNone) arrive_empty(s_.empty_first[before.first]);
      if (is_last) warp_arrive(s_.empty_owned);
      compute_ds(s, dp);
      pack_operand<T>(dp, ds);
      finish_before_wait(dp[0]);
      wgmma_wait<0>();  // until dv(i) is done
      fence_registers(dv);
      fence_registers(p);
      before = {first_.idx(), second_.idx()};
      first_.advance();
      second_.advance();
      if (is_last) break;
      start_s(s);
      start_accumulate<T>(dk, ds, smem_address(buffers_.first[before.first]));
      // 32 arrivals take time, so they come after products were started, which hide them.
      arrive_empty(s_.empty_second[before.second]);
      start_dp(dp);
      is_last = read_flag(s_.step[first_.idx()].is_last);
      wgmma_wait<2>();  // until s(i + 1) is done
      fence_registers(s);
    }
    start_accumulate<T>(dk, ds, smem_address(buffers_.first[before.first]));
    arrive_empty(s_.empty_second[before.second]);
    wgmma_wait<0>();
    fence_registers(ds);
    fence_registers(dk);
    arrive_empty(s_.empty_first[before.first]);
  }

  /// The epilogue: stores dk and dv.
  __device__ __forceinline__ void store(const BackwardItem<kConsumers>& item,
                                        const float (&dk)[kHeadDim / 2],
                                        const float (&dv)[kHeadDim / 2]) const {
    const PlanShape& plan = p_.kv.plan;
    const int32_t head_idx = item.idx / plan.num_blocks();
    const int32_t tile = item.idx % plan.num_blocks() / plan.blocks_per_tile;
    const int64_t pooled_row = (int64_t{head_idx} * plan.num_tiles + tile) * kHeadDim;
    const float factor = 1.0F / static_cast<float>(max(1, p_.kv.tile_len[tile]));
    const Block block = item.block[consumer_];
    const auto rows = [&](const Rows& to, const float* pooled) {
      return GradientRows{to, head_idx / p_.kv.num_heads, head_idx % p_.kv.num_heads,
                          pooled == nullptr ? nullptr : pooled + pooled_row, factor};
    };
    store_gradient<T, kHeadDim>(dv, 1.0F / kPFactor, rows(p_.dv, p_.dv_pooled), plan, block);
    store_gradient<T, kHeadDim>(dk, p_.scale, rows(p_.dk, p_.dk_pooled), plan, block);
  }

  const FineBackwardParams& p_;
  typename Smem::Buffers& buffers_;
  typename Smem::Stream& s_;
  const uint32_t consumer_;  // index among the consumers of the stream
  const uint32_t lane_;
  RingSlot<Smem::kFirstStages> first_;    // slot of q
  RingSlot<Smem::kSecondStages> second_;  // slot of dout
};

}  // namespace vsa::cuda::sm90
