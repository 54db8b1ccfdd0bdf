// The producer of one stream of the backward fine kernels: a warp that copies the owned and the
// streamed blocks of each item to shared memory by TMA. Device-only.
//
//   for each item from the queue:
//     wait empty_owned -> copy the owned blocks
//     publish_item, once it is known whether there are steps: arrive on full_owned
//     for each step of the list: wait empty_first -> copy q (or k), lse
//                                wait empty_second -> copy dout (or v), delta
//                                close_step: zero rows without a token, arrive on full_first and
//                                full_second
//
// The list of an item is read once or twice: first all full blocks, which are one step each; then,
// if there are any, the partial blocks, which are packed into steps of 64 rows as in the forward
// schedule (schedule.h). A step is closed only when the next one opens or the list has ended,
// because only then it is known whether it is the last one (is_last).
//
// At head_dim 128 a producer thread has 24 registers, because the consumers need the others. The
// producer therefore reads values again from memory instead of keeping them in registers.
#pragma once

#include "src/cuda/fine/sm90/copy_block.h"
#include "src/cuda/fine/sm90/fine_backward_params.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/plan/schedule.h"

namespace vsa::cuda::sm90 {

/// The statistics of a block without tokens, in global memory.
__device__ __forceinline__ const QueryStatistics& empty_statistics() {
  static constexpr QueryStatistics kEmpty = QueryStatistics::empty();
  return kEmpty;
}

/// @tparam kOwnsKeys  whether keys are owned and queries streamed, or the other way round
template <int kHeadDim, int kConsumers, bool kOwnsKeys>
class BackwardProducer {
 public:
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  using Copy = BlockCopy<Smem::kSlabs>;

  __device__ __forceinline__ BackwardProducer(const FineBackwardParams& params, Smem& smem,
                                              uint32_t stream)
      : p_(params),
        owned_(kOwnsKeys ? params.kv : params.q),
        streamed_(kOwnsKeys ? params.q : params.kv),
        buffers_(smem.buffers[stream]),
        s_(smem.stream[stream]),
        lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ void run(uint32_t stream) {
    if (lane_ == 0) {
      s_.next_item = static_cast<int32_t>((blockIdx.x + stream * gridDim.x) * kConsumers);
      s_.item_parity = 0;
    }
    __syncwarp();
    while (true) {
      const int32_t item = s_.next_item;
      barrier_wait(smem_address(&s_.empty_owned), s_.item_parity ^ 1);
      if (item >= p_.num_items) break;
      produce(item);
      __syncwarp();
      if (lane_ == 0) s_.item_parity ^= 1;
      __syncwarp();
    }
    if (lane_ == 0) {
      s_.item[s_.item_parity].idx = -1;
      barrier_arrive(smem_address(&s_.full_owned));
    }
  }

 private:
  struct TileList {
    const int32_t* index;
    int32_t count;
  };

  __device__ __forceinline__ void produce(int32_t item) {
    int32_t taken = 0;  // requested first, so that copying the owned blocks hides the latency
    if (lane_ == 0) taken = atomicAdd(p_.next_item, kConsumers);
    const bool has_tokens = load_owned(item);
    if (lane_ == 0) s_.next_item = taken + static_cast<int32_t>(2 * grid_dim());
    const int32_t head_idx = item / owned_.plan.num_blocks();
    const int32_t tile = item % owned_.plan.num_blocks() / owned_.plan.blocks_per_tile;
    packer_ = {};
    if (has_tokens) {
      if constexpr (kOwnsKeys) {
        streamed_head_ = head_idx * p_.group_size;
#pragma unroll 1
        do {
          const int64_t row = int64_t{streamed_head_} * owned_.plan.num_tiles + tile;
          const int64_t begin = __ldg(p_.lut_t.offset + row);
          load_steps({p_.lut_t.index + begin,
                      static_cast<int32_t>(__ldg(p_.lut_t.offset + row + 1) - begin)});
          packer_.row = kBlockTokens;  // the next head begins a new step
        } while (++streamed_head_ % p_.group_size != 0);
      } else {
        streamed_head_ = head_idx / p_.group_size;
        const int64_t row = int64_t{head_idx} * owned_.plan.num_tiles + tile;
        load_steps({p_.lut.index + row * p_.lut.dims.pitch,
                    clamp_to(__ldg(p_.lut.count + row), static_cast<int32_t>(p_.lut.dims.pitch))});
      }
    }
    if (packer_.num_steps > 0) {
      close_step(true);
    } else {
      publish_item(false);
    }
  }

  __device__ __forceinline__ static Block block_at(const BackwardSide& side, int32_t idx) {
    const int4 block = __ldg(reinterpret_cast<const int4*>(side.blocks) + idx);
    return {block.x, block.y, block.z, static_cast<uint32_t>(block.w)};
  }

  /// Sets s_.head to the coordinates of a head in both tensor maps of a side.
  __device__ __forceinline__ void set_head(const BackwardSide& side, int32_t head_idx) {
    if (const uint32_t which = thread_idx() % 32; which < 2) {
      s_.head[which] = head_idx / side.num_heads * side.step[which].batch +
                       head_idx % side.num_heads * side.step[which].head;
    }
    __syncwarp();
  }

  /// Starts copying the blocks that the consumers own.
  /// @return whether there is a token in them
  __device__ __forceinline__ bool load_owned(int32_t item_idx) {
    set_head(owned_, item_idx / owned_.plan.num_blocks());
    const uint32_t full = smem_address(&s_.full_owned);
    int tokens = 0;
#pragma unroll
    for (int c = 0; c < kConsumers; ++c) {
      const Block block = block_at(owned_, item_idx % owned_.plan.num_blocks() + c);
      tokens += block.len();
      if (lane_ != 0) continue;
      s_.item[s_.item_parity].block[c] = block;
      barrier_expect(full, 2 * Copy::bytes(block));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Copy::start(owned_.maps[i], block, smem_address(buffers_.owned[c][i]), 0, s_.head[i], full);
      }
    }
    if (lane_ == 0) s_.item[s_.item_parity].idx = item_idx;
    __syncwarp();
    return tokens > 0;
  }

  /// Loads all steps of one list.
  __device__ __forceinline__ void load_steps(const TileList& list) {
    set_head(streamed_, streamed_head_);
    bool has_partial = true;
#pragma unroll 1
    for (bool is_second_pass = false; has_partial; is_second_pass = true) {
      has_partial = false;
#pragma unroll 1
      for (int32_t base = 0; base < list.count * streamed_.plan.blocks_per_tile; base += 32) {
        int32_t idx = 0;
        const Block block = block_of(list, base + static_cast<int32_t>(lane_), idx);
        const unsigned full = __ballot_sync(~0U, block.len() == kBlockTokens);
        const unsigned partial = __ballot_sync(~0U, block.len() > 0) & ~full;
        has_partial = has_partial || (!is_second_pass && partial != 0);
#pragma unroll 1
        for (unsigned left = is_second_pass ? partial : full; left != 0; left &= left - 1) {
          const int from = __ffs(static_cast<int>(left)) - 1;
          load({__shfl_sync(~0U, block.w, from), __shfl_sync(~0U, block.h, from),
                __shfl_sync(~0U, block.f, from), __shfl_sync(~0U, block.bits, from)},
               __shfl_sync(~0U, idx, from));
        }
      }
    }
  }

  /// Block i of the tiles on the list, and its number; a block without rows if there is none.
  __device__ __forceinline__ Block block_of(const TileList& list, int32_t i, int32_t& idx) const {
    const int32_t per_tile = streamed_.plan.blocks_per_tile;
    if (i < list.count * per_tile) {
      const int32_t tile = __ldg(list.index + i / per_tile);
      if (tile >= 0 && tile < streamed_.plan.num_tiles) {
        idx = tile * per_tile + i % per_tile;
        return block_at(streamed_, idx);
      }
    }
    return {0, 0, 0, 0};
  }

  /// Starts copying a block into the open step, or into a new one if the block does not fit.
  __device__ __forceinline__ void load(const Block& block, int32_t idx) {
    const bool is_first = packer_.num_steps == 0;
    const auto [row, opens_step] = packer_.place(block.len());
    if (opens_step) {
      if (is_first) {
        publish_item(true);
      } else {
        close_step(false);
      }
      barrier_wait(smem_address(&s_.empty_first[first_.idx()]), first_.parity() ^ 1);
    }
    copy<0>(block, idx, row, buffers_.first[first_.idx()], s_.minus_lse_log2[first_.idx()],
            s_.full_first[first_.idx()]);
    if (lane_ == 0) {
      uint64_t& bits = s_.step[first_.idx()].row_bits;
      bits = row_bits(row, block.len()) | (opens_step ? 0 : bits);
    }
    if (opens_step) {
      barrier_wait(smem_address(&s_.empty_second[second_.idx()]), second_.parity() ^ 1);
    }
    copy<1>(block, idx, row, buffers_.second[second_.idx()], s_.delta[second_.idx()],
            s_.full_second[second_.idx()]);
    __syncwarp();
  }

  /// Starts copying one of the two tensors of a block and, of queries, the statistics that are used
  /// with it.
  template <int kWhich>
  __device__ __forceinline__ void copy(const Block& block, int32_t idx, int32_t row,
                                       const uint8_t (&buffer)[Smem::kBufferBytes],
                                       float (&statistics)[kBlockTokens], uint64_t& full) const {
    if (lane_ != 0) return;
    const auto rows = static_cast<uint32_t>((block.len() + 7) / 8 * 8);
    const uint32_t statistics_bytes = kOwnsKeys ? rows * sizeof(float) : 0;
    barrier_expect(smem_address(&full), Copy::bytes(block) + statistics_bytes);
    Copy::start(streamed_.maps[kWhich], block, smem_address(buffer), row, s_.head[kWhich],
                smem_address(&full));
    if constexpr (kOwnsKeys) {
      const QueryStatistics& from =
          p_.statistics[int64_t{streamed_head_} * streamed_.plan.num_blocks() + idx];
      copy_bytes(smem_address(statistics + row), kWhich == 0 ? from.minus_lse_log2 : from.delta,
                 statistics_bytes, smem_address(&full));
    }
  }

  /// Completes the open step: no block will be added to it.
  __device__ __forceinline__ void close_step(bool is_last) {
    const uint64_t bits = s_.step[first_.idx()].row_bits;
    if (bits != ~uint64_t{0}) {
      // The probabilities of rows without a token are 0, but 0 * NaN is NaN, and these rows still
      // hold old data.
      Copy::zero_other_rows(smem_address(buffers_.first[first_.idx()]), bits, thread_idx() % 32);
      Copy::zero_other_rows(smem_address(buffers_.second[second_.idx()]), bits, thread_idx() % 32);
      if constexpr (kOwnsKeys) fill_statistics(bits);
    }
    if (lane_ == 0) {
      s_.step[first_.idx()].is_last = is_last ? 1U : 0U;
      barrier_arrive(smem_address(&s_.full_first[first_.idx()]));
      barrier_arrive(smem_address(&s_.full_second[second_.idx()]));
    }
    first_.advance();
    second_.advance();
  }

  /// Sets the statistics of the rows after the open step's last block to those of no token. They
  /// are written by bulk copies like all other statistics, so that the slot's barriers alone order
  /// them after the reads of the old values and before those of the new ones.
  __device__ __forceinline__ void fill_statistics(uint64_t row_bits) const {
    const int32_t row = (kBlockTokens - __clzll(static_cast<int64_t>(row_bits)) + 7) / 8 * 8;
    if (row == kBlockTokens || thread_idx() % 32 != 0) return;
    const auto fill = [row](float(&to)[kBlockTokens], const float* from, uint64_t& full) {
      const uint32_t bytes = static_cast<uint32_t>(kBlockTokens - row) * sizeof(float);
      barrier_expect(smem_address(&full), bytes);
      copy_bytes(smem_address(to + row), from, bytes, smem_address(&full));
    };
    const QueryStatistics& empty = empty_statistics();
    fill(s_.minus_lse_log2[first_.idx()], empty.minus_lse_log2, s_.full_first[first_.idx()]);
    fill(s_.delta[second_.idx()], empty.delta, s_.full_second[second_.idx()]);
  }

  /// Tells the consumers about the item, once load_owned was called.
  __device__ __forceinline__ void publish_item(bool has_steps) {
    if (lane_ != 0) return;
    s_.item[s_.item_parity].has_steps = has_steps ? 1 : 0;
    barrier_arrive(smem_address(&s_.full_owned));
  }

  const FineBackwardParams& p_;
  const BackwardSide &owned_, &streamed_;
  typename Smem::Buffers& buffers_;
  typename Smem::Stream& s_;
  const uint32_t lane_;
  int32_t streamed_head_ = 0;  // the streamed side's head, counted over all batch items
  StepPacker packer_;          // steps of the item
  RingSlot<Smem::kFirstStages> first_;
  RingSlot<Smem::kSecondStages> second_;
};

}  // namespace vsa::cuda::sm90
