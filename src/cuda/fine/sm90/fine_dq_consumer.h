// A consumer of the dq kernel: a warpgroup that holds 64 queries and their dout in registers and
// passes over the keys they keep. Device-only.
//
//   s = q k^T   dp = dout v^T           rows are queries, columns keys
//   p = exp2(scale_log2 s - lse_log2)
//   ds = p (dp - delta)                 dq += ds k      (times scale in the end)
//
// In the order of the tensor cores: s(i+1) dq(i) dp(i+1) s(i+2) ...; p(i+1) is made under dq(i) and
// dp(i+1). With dq(i) first, ptxas 13.0 gives ds the registers of dout at head_dim 64.
// Registers of a thread at head_dim 128: q 32, dout 32, dq 64, s 32, dp 32, ds as operand 16.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_consumer.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim, int kConsumers>
class DqConsumer {
 public:
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr uint32_t kSlotArrivals = 1;

  __device__ __forceinline__ DqConsumer(const FineBackwardParams& params, Smem& smem, uint32_t half)
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
      float dq[kHeadDim / 2] = {};
      if (item.has_steps != 0) {
        load_statistics(item);
        uint32_t q[kSteps][4], dout[kSteps][4];
        load_operand(smem_address(buffers_.own[in_item_][0]), q);
        load_operand(smem_address(buffers_.own[in_item_][1]), dout);
        release(s_.empty_own);
        accumulate(q, dout, dq);
      } else {
        release(s_.empty_own);
      }
      store(item, dq);
    }
  }

 private:
  __device__ __forceinline__ void load_operand(uint32_t buffer, uint32_t (&to)[kSteps][4]) const {
    const uint32_t row = threadIdx.x / 32 % 4 * 16 + lane_ % 16;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t piece = static_cast<uint32_t>(i % 4 * 2) + lane_ / 16;
      load_matrices(to[i],
                    buffer + static_cast<uint32_t>(i / 4 * kSlabBytes) + swizzled(row, piece));
    }
  }

  /// Of this thread's two rows.
  __device__ __forceinline__ void load_statistics(const BackwardItem<kConsumers>& item) {
    const QueryStatistics& statistics = p_.statistics[item.idx + static_cast<int32_t>(in_item_)];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      minus_lse_log2_[half] = __ldg(&statistics.minus_lse_log2[row_of_thread(half)]);
      delta_[half] = __ldg(&statistics.delta[row_of_thread(half)]);
    }
  }

  /// Starts x = a b^T over head_dim.
  __device__ __forceinline__ static void start_product(float (&x)[kPairs],
                                                       const uint32_t (&a)[kSteps][4],
                                                       uint32_t buffer) {
    const Descriptor b(k_descriptor(uniform(buffer)));
    wgmma_fence();
    wgmma_first<T>(x, a[0], b.advanced(0));
#pragma unroll
    for (int i = 1; i < kSteps; ++i) wgmma<T, 0>(x, a[i], b.advanced(k_advance(i)), 1);
    wgmma_commit();
    pin(x);
  }

  __device__ __forceinline__ void start_s(const uint32_t (&q)[kSteps][4], float (&s)[kPairs]) {
    barrier_wait(smem_address(&s_.full_first[first_.idx()]), first_.parity());
    start_product(s, q, smem_address(buffers_.first[first_.idx()]));
  }
  __device__ __forceinline__ void start_dp(const uint32_t (&dout)[kSteps][4], float (&dp)[kPairs]) {
    barrier_wait(smem_address(&s_.full_second[second_.idx()]), second_.parity());
    start_product(dp, dout, smem_address(buffers_.second[second_.idx()]));
  }

  /// s becomes p, 0 at keys that are no token.
  /// @param row_bits  address of the step's
  __device__ __forceinline__ void make_p(float (&s)[kPairs], uint32_t row_bits) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      s[i] = exp2_fast(fmaf(s[i], p_.scale_log2, minus_lse_log2_[i / 2 % 2]));
    }
    if (read_all_rows_full(row_bits)) return;
    const uint64_t mine = read_row_bits(row_bits) >> (lane_ % 4 * 2);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if ((mine >> (i / 4 * 8 + i % 2) & 1U) == 0) s[i] = 0.0F;
    }
  }

  __device__ __forceinline__ void make_ds(const float (&p)[kPairs], float (&dp)[kPairs]) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) dp[i] = p[i] * (dp[i] - delta_[i / 2 % 2]);
  }

  /// s and dp of the step have been started, and nothing after them: makes ds of them.
  /// @param under  frees what a product still runs on, while p is made
  template <int kAfterS, class Under>
  __device__ __forceinline__ void finish_step(float (&s)[kPairs], float (&dp)[kPairs],
                                              uint32_t (&ds)[kRowSteps][4], const Under& under) {
    wgmma_wait<kAfterS>();
    pin(s);
    make_p(s, smem_address(&s_.step[first_.idx()].row_bits));
    finish_before_wait(s[0]);
    under();
    wgmma_wait<0>();  // dp
    pin(dp);
    release(s_.empty_second[second_.idx()]);
    make_ds(s, dp);
    pack_operand<T>(dp, ds);
    first_.advance();
    second_.advance();
  }

  __device__ __forceinline__ void accumulate(const uint32_t (&q)[kSteps][4],
                                             const uint32_t (&dout)[kSteps][4],
                                             float (&dq)[kHeadDim / 2]) {
    float s[kPairs], dp[kPairs];
    uint32_t ds[kRowSteps][4] = {};
    pin(dq);
    pin(ds);
    uint32_t before = first_.idx();  // slot of k whose dq is to be started, or running
    start_s(q, s);
    start_dp(dout, dp);
    bool is_last = read_flag(s_.step[before].is_last);
    finish_step<1>(s, dp, ds, [] {});
#pragma unroll 1
    while (!is_last) {
      start_s(q, s);
      start_sum<T>(dq, ds, smem_address(buffers_.first[before]));
      start_dp(dout, dp);
      const uint32_t now = first_.idx();
      is_last = read_flag(s_.step[now].is_last);
      finish_step<2>(s, dp, ds, [&] {
        wgmma_wait<1>();  // dq(i - 1)
        pin(ds);
        pin(dq);
        release(s_.empty_first[before]);
      });
      before = now;
    }
    start_sum<T>(dq, ds, smem_address(buffers_.first[before]));
    wgmma_wait<0>();
    pin(ds);
    pin(dq);
    release(s_.empty_first[before]);
  }

  __device__ __forceinline__ void store(const BackwardItem<kConsumers>& item,
                                        const float (&dq)[kHeadDim / 2]) const {
    const PlanShape& plan = p_.q.plan;
    const int32_t head_idx = item.idx / plan.num_blocks();
    const int32_t tile = item.idx % plan.num_blocks() / plan.blocks_per_tile;
    const int64_t pooled_row = (int64_t{head_idx} * plan.num_tiles + tile) * kHeadDim;
    const Block block = item.block[in_item_];
    store_gradient<T, kHeadDim>(dq, p_.scale,
                                {p_.dq, head_idx / p_.q.num_heads, head_idx % p_.q.num_heads,
                                 p_.dq_pooled == nullptr ? nullptr : p_.dq_pooled + pooled_row,
                                 1.0F / static_cast<float>(max(1, p_.q.tile_len[tile]))},
                                plan, block);
  }

  const FineBackwardParams& p_;
  typename Smem::Buffers& buffers_;
  typename Smem::Stream& s_;
  const uint32_t in_item_;  // number of this consumer among those of the stream
  const uint32_t lane_;
  float minus_lse_log2_[2] = {}, delta_[2] = {};
  RingSlot<Smem::kFirstStages> first_;
  RingSlot<Smem::kSecondStages> second_;
};

}  // namespace vsa::cuda::sm90
