// A consumer of the dk and dv kernel: a warpgroup that owns 64 keys and passes over the queries
// that keep them. Device-only.
//
//   s = k q^T   dp = v dout^T           rows are keys, columns queries
//   p = exp2(scale_log2 s - lse_log2)   dv += p dout
//   ds = p (dp - delta)                 dk += ds q      (times scale in the end)
//
// In the order of the tensor cores: dv(i) s(i+1) dk(i) dp(i+1) dv(i+1) ...; p(i+1) is made under
// dk(i) and dp(i+1), ds(i+1) under dv(i+1). Registers of a thread at head_dim 128: dk 64, dv 64, s
// 32, dp 32, p and ds as operands 2 x 16.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_consumer.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim, int kConsumers>
class DkvConsumer {
 public:
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  static constexpr uint32_t kSlotArrivals = 32;  // of a warp, see arrive_empty

  __device__ __forceinline__ DkvConsumer(const FineBackwardParams& params, Smem& smem,
                                         uint32_t half)
      : p_(params),
        buffers_(smem.buffers[half / kConsumers]),
        s_(smem.stream[half / kConsumers]),
        in_item_(half % kConsumers),
        lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run() {
    for (uint32_t parity = 0;; parity ^= 1) {
      barrier_wait(smem_address(&s_.full_own), parity);
      const BackwardItem<kConsumers>& item = s_.item[parity];
      if (item.idx < 0) return;
      float dk[kHeadDim / 2] = {}, dv[kHeadDim / 2] = {};
      if (item.has_steps != 0) {
        accumulate(dk, dv);
      } else {
        release(s_.empty_own);
      }
      store(item, dk, dv);
    }
  }

 private:
  using Operand = uint32_t[kRowSteps][4];
  static_assert(Smem::kSecondStages >= 2, "s of the next step is waited for with dout's slot held");

  /// f16 has no small numbers: of a key that all its queries care little for, nothing would be
  /// left.
  static constexpr float kPFactor = std::is_same_v<T, __half> ? 0x1p15F : 1.0F;

  /// Starts x = a b^T over head_dim, both in buffers.
  __device__ __forceinline__ static void start_product(float (&x)[kPairs], uint32_t a_buffer,
                                                       uint32_t b_buffer) {
    const Descriptor a(k_descriptor(uniform(a_buffer)));
    const Descriptor b(k_descriptor(uniform(b_buffer)));
    wgmma_fence();
    wgmma_shared_first<T>(x, a.advanced(0), b.advanced(0));
#pragma unroll
    for (int i = 1; i < kHeadDim / 16; ++i) {
      wgmma_shared<T>(x, a.advanced(k_advance(i)), b.advanced(k_advance(i)), 1);
    }
    wgmma_commit();
    pin(x);
  }

  __device__ __forceinline__ void start_s(float (&s)[kPairs]) {
    barrier_wait(smem_address(&s_.full_first[first_.idx()]), first_.parity());
    start_product(s, smem_address(buffers_.own[in_item_][0]),
                  smem_address(buffers_.first[first_.idx()]));
  }
  __device__ __forceinline__ void start_dp(float (&dp)[kPairs]) {
    barrier_wait(smem_address(&s_.full_second[second_.idx()]), second_.parity());
    start_product(dp, smem_address(buffers_.own[in_item_][1]),
                  smem_address(buffers_.second[second_.idx()]));
  }

  /// Columns 8 j + 2 (lane % 4) and the next of a row of 64.
  __device__ __forceinline__ float2 columns(const float (&row)[kBlockTokens], int j) const {
    return *reinterpret_cast<const float2*>(row + 8 * j + lane_ % 4 * 2);
  }

  /// This lane is done with a slot. Each for itself: all of them read statistics that copies will
  /// overwrite, and race checkers do not see a lane's reads before the arrival of another.
  __device__ __forceinline__ static void arrive_empty(const uint64_t& empty) {
    barrier_arrive(smem_address(&empty));
  }

  /// s becomes p.
  __device__ __forceinline__ void make_p(float (&s)[kPairs]) const {
#pragma unroll
    for (int j = 0; j < kPairs / 4; ++j) {
      const float2 lse = columns(s_.minus_lse_log2[first_.idx()], j);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        s[4 * j + c] = exp2_fast(fmaf(s[4 * j + c], p_.scale_log2, c % 2 == 0 ? lse.x : lse.y));
      }
    }
  }

  /// dp becomes ds.
  __device__ __forceinline__ void make_ds(const float (&p)[kPairs], float (&dp)[kPairs]) const {
#pragma unroll
    for (int j = 0; j < kPairs / 4; ++j) {
      const float2 delta = columns(s_.delta[second_.idx()], j);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        dp[4 * j + c] = p[4 * j + c] * (dp[4 * j + c] - (c % 2 == 0 ? delta.x : delta.y));
      }
    }
  }

  __device__ __forceinline__ void accumulate(float (&dk)[kHeadDim / 2], float (&dv)[kHeadDim / 2]) {
    float s[kPairs], dp[kPairs];
    Operand p = {}, ds = {};
    pin(dk);
    pin(dv);
    pin(p);
    pin(ds);
    start_s(s);
    start_dp(dp);
    bool is_last = read_flag(s_.step[first_.idx()].is_last);
    wgmma_wait<1>();  // s(0)
    pin(s);
    constexpr uint32_t kNone = ~0U;
    struct {
      uint32_t first, second;
    } before{kNone, kNone};  // slots of q, whose dk is running, and of dout, whose dv has ended
    while (true) {
      make_p(s);
      pack_operand<T>(s, p, kPFactor);
      start_sum<T>(dv, p, smem_address(buffers_.second[second_.idx()]));
      wgmma_wait<1>();  // dp(i), and dk(i - 1)
      pin(dp);
      pin(ds);
      pin(dk);
      if (before.first != kNone) arrive_empty(s_.empty_first[before.first]);
      if (is_last) release(s_.empty_own);
      make_ds(s, dp);
      pack_operand<T>(dp, ds);
      finish_before_wait(dp[0]);
      wgmma_wait<0>();  // dv(i)
      pin(dv);
      pin(p);
      before = {first_.idx(), second_.idx()};
      first_.advance();
      second_.advance();
      if (is_last) break;
      start_s(s);
      start_sum<T>(dk, ds, smem_address(buffers_.first[before.first]));
      arrive_empty(s_.empty_second[before.second]);  // only now, beside products
      start_dp(dp);
      is_last = read_flag(s_.step[first_.idx()].is_last);
      wgmma_wait<2>();  // s(i + 1)
      pin(s);
    }
    start_sum<T>(dk, ds, smem_address(buffers_.first[before.first]));
    arrive_empty(s_.empty_second[before.second]);
    wgmma_wait<0>();
    pin(ds);
    pin(dk);
    arrive_empty(s_.empty_first[before.first]);
  }

  __device__ __forceinline__ void store(const BackwardItem<kConsumers>& item,
                                        const float (&dk)[kHeadDim / 2],
                                        const float (&dv)[kHeadDim / 2]) const {
    const PlanShape& plan = p_.kv.plan;
    const int32_t head_idx = item.idx / plan.num_blocks();
    const int32_t tile = item.idx % plan.num_blocks() / plan.blocks_per_tile;
    const int64_t pooled_row = (int64_t{head_idx} * plan.num_tiles + tile) * kHeadDim;
    const float factor = 1.0F / static_cast<float>(max(1, p_.kv.tile_len[tile]));
    const Block block = item.block[in_item_];
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
  const uint32_t in_item_;  // number of this consumer among those of the stream
  const uint32_t lane_;
  RingSlot<Smem::kFirstStages> first_;
  RingSlot<Smem::kSecondStages> second_;
};

}  // namespace vsa::cuda::sm90
