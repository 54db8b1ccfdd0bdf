// A consumer of the dq kernel: a warpgroup that owns 64 queries, holds them and their dout in
// registers and processes the keys on their list, 64 in a step. Device-only.
//
//   s = q k^T   dp = dout v^T           rows are queries, columns keys
//   p = exp2(scale_log2 s - lse_log2)
//   ds = p (dp - delta)                 dq += ds k      (times scale at the end)
//
// The products of step i in the order in which they are issued, and what a warp does meanwhile:
//   tensor cores  | s(i+1) | dq(i) | dp(i+1) |         | s(i+2) ...
//   this warp     | wait   | p(i+1)          | ds(i+1) |
//
// s(i+1) is issued before dq(i). In the opposite order ptxas 13.0 generates wrong code at head_dim
// 64: it gives ds the registers of dout, which are still in use.
// Registers of a thread at head_dim 128: q 32, dout 32, dq 64, s 32, dp 32, ds as operand 16.
#pragma once

#include "src/cuda/fine/sm90/fine_backward_consumer.h"

namespace vsa::cuda::sm90 {

template <class T, int kHeadDim, int kConsumers>
class DqConsumer {
 public:
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  static constexpr int kSteps = kHeadDim / 16;  // wgmma of k = 16 along head_dim
  static constexpr uint32_t kSlotArrivals = 1;  // of a warp on an empty barrier

  __device__ __forceinline__ DqConsumer(const FineBackwardParams& params, Smem& smem,
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
      float dq[kHeadDim / 2] = {};
      if (item.has_steps != 0) {
        load_statistics(item);
        uint32_t q[kSteps][4], dout[kSteps][4];
        load_operand(smem_address(buffers_.owned[consumer_][0]), q);
        load_operand(smem_address(buffers_.owned[consumer_][1]), dout);
        warp_arrive(s_.empty_owned);
        accumulate(q, dout, dq);
      } else {
        warp_arrive(s_.empty_owned);
      }
      store(item, dq);
    }
  }

 private:
  /// Loads 64 rows from shared memory as the A operands of all products with keys.
  __device__ __forceinline__ void load_operand(uint32_t buffer, uint32_t (&to)[kSteps][4]) const {
    const uint32_t row = threadIdx.x / 32 % 4 * 16 + lane_ % 16;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const uint32_t piece = static_cast<uint32_t>(i % 4 * 2) + lane_ / 16;
      ldmatrix_x4(to[i], buffer + static_cast<uint32_t>(i / 4 * kSlabBytes) + swizzled(row, piece));
    }
  }

  /// Loads lse and delta of this thread's two rows.
  __device__ __forceinline__ void load_statistics(const BackwardItem<kConsumers>& item) {
    const QueryStatistics& statistics = p_.statistics[item.idx + static_cast<int32_t>(consumer_)];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      minus_lse_log2_[half] = __ldg(&statistics.minus_lse_log2[row_of_thread(half)]);
      delta_[half] = __ldg(&statistics.delta[row_of_thread(half)]);
    }
  }

  /// Starts x = a b^T, the sum over head_dim; b is 64 rows in shared memory.
  __device__ __forceinline__ static void start_product(float (&x)[kScores],
                                                       const uint32_t (&a)[kSteps][4],
                                                       uint32_t buffer) {
    const Descriptor b(k_descriptor(warp_uniform(buffer)));
    wgmma_fence();
    wgmma_first<T>(x, a[0], b.advanced(0));
#pragma unroll
    for (int i = 1; i < kSteps; ++i) wgmma<T, 0>(x, a[i], b.advanced(k_advance(i)), 1);
    wgmma_commit();
    fence_registers(x);
  }

  __device__ __forceinline__ void start_s(const uint32_t (&q)[kSteps][4], float (&s)[kScores]) {
    barrier_wait(smem_address(&s_.full_first[first_.idx()]), first_.parity());
    start_product(s, q, smem_address(buffers_.first[first_.idx()]));
  }
  __device__ __forceinline__ void start_dp(const uint32_t (&dout)[kSteps][4],
                                           float (&dp)[kScores]) {
    barrier_wait(smem_address(&s_.full_second[second_.idx()]), second_.parity());
    start_product(dp, dout, smem_address(buffers_.second[second_.idx()]));
  }

  /// Replaces s by p, which is 0 for keys that are no token.
  /// @param row_bits  address of the row bits of the step
  __device__ __forceinline__ void compute_p(float (&s)[kScores], uint32_t row_bits) const {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      s[i] = exp2_fast(fmaf(s[i], p_.scale_log2, minus_lse_log2_[i / 2 % 2]));
    }
    if (read_all_rows_full(row_bits)) return;
    const uint64_t bits = read_row_bits(row_bits) >> (lane_ % 4 * 2);
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if ((bits >> (i / 4 * 8 + i % 2) & 1U) == 0) s[i] = 0.0F;
    }
  }

  /// Replaces dp by ds.
  __device__ __forceinline__ void compute_ds(const float (&p)[kScores],
                                             float (&dp)[kScores]) const {
#pragma unroll
    for (int i = 0; i < kScores; ++i) dp[i] = p[i] * (dp[i] - delta_[i / 2 % 2]);
  }

  /// Waits for s and dp, the products that were started last, and computes ds.
  /// @tparam kAfterS  groups of products that were started after s
  /// @param release   called between the computation of p and the wait for dp: it waits for the
  ///                  product dq of the step before, and releases the slot that this product read
  template <int kAfterS, class Release>
  __device__ __forceinline__ void finish_step(float (&s)[kScores], float (&dp)[kScores],
                                              uint32_t (&ds)[kRowSteps][4],
                                              const Release& release) {
    wgmma_wait<kAfterS>();
    fence_registers(s);
    compute_p(s, smem_address(&s_.step[first_.idx()].row_bits));
    finish_before_wait(s[0]);
    release();
    wgmma_wait<0>();  // until dp is done
    fence_registers(dp);
    warp_arrive(s_.empty_second[second_.idx()]);
    compute_ds(s, dp);
    pack_operand<T>(dp, ds);
    first_.advance();
    second_.advance();
  }

  /// dq of the owned queries over all steps of the item.
  __device__ __forceinline__ void accumulate(const uint32_t (&q)[kSteps][4],
                                             const uint32_t (&dout)[kSteps][4],
                                             float (&dq)[kHeadDim / 2]) {
    float s[kScores], dp[kScores];
    uint32_t ds[kRowSteps][4] = {};
    fence_registers(dq);
    fence_registers(ds);
    uint32_t before = first_.idx();  // slot of k whose dq was not started yet, or is running
    start_s(q, s);
    start_dp(dout, dp);
    bool is_last = read_flag(s_.step[before].is_last);
    finish_step<1>(s, dp, ds, [] {});
#pragma unroll 1
    while (!is_last) {
      start_s(q, s);
      start_accumulate<T>(dq, ds, smem_address(buffers_.first[before]));
      start_dp(dout, dp);
      const uint32_t now = first_.idx();
      is_last = read_flag(s_.step[now].is_last);
      finish_step<2>(s, dp, ds, [&] {
        wgmma_wait<1>();  // until dq of the step before is done
        fence_registers(ds);
        fence_registers(dq);
        warp_arrive(s_.empty_first[before]);
      });
      before = now;
    }
    start_accumulate<T>(dq, ds, smem_address(buffers_.first[before]));
    wgmma_wait<0>();
    fence_registers(ds);
    fence_registers(dq);
    warp_arrive(s_.empty_first[before]);
  }

  /// The epilogue: stores dq.
  __device__ __forceinline__ void store(const BackwardItem<kConsumers>& item,
                                        const float (&dq)[kHeadDim / 2]) const {
    const PlanShape& plan = p_.q.plan;
    const int32_t head_idx = item.idx / plan.num_blocks();
    const int32_t tile = item.idx % plan.num_blocks() / plan.blocks_per_tile;
    const int64_t pooled_row = (int64_t{head_idx} * plan.num_tiles + tile) * kHeadDim;
    const Block block = item.block[consumer_];
    store_gradient<T, kHeadDim>(dq, p_.scale,
                                {p_.dq, head_idx / p_.q.num_heads, head_idx % p_.q.num_heads,
                                 p_.dq_pooled == nullptr ? nullptr : p_.dq_pooled + pooled_row,
                                 1.0F / static_cast<float>(max(1, p_.q.tile_len[tile]))},
                                plan, block);
  }

  const FineBackwardParams& p_;
  typename Smem::Buffers& buffers_;
  typename Smem::Stream& s_;
  const uint32_t consumer_;  // index among the consumers of the stream
  const uint32_t lane_;
  float minus_lse_log2_[2] = {}, delta_[2] = {};
  RingSlot<Smem::kFirstStages> first_;    // slot of k
  RingSlot<Smem::kSecondStages> second_;  // slot of v
};

}  // namespace vsa::cuda::sm90
