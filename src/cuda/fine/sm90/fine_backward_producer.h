// The producer of a stream of the fine backward: one warp that brings the blocks of its consumers'
// items. Device-only.
//
// The list of an item is walked twice at most: full blocks first, a step each, then short ones
// (from the far edges of the grid) packed into steps of 64 rows as the forward does (schedule.h). A
// step is announced to the consumers only when it is known whether another follows.
//
// It has 24 registers at head_dim 128, as the consumers need the others: what can be read again is
// not kept.
#pragma once

#include "src/cuda/fine/sm90/copy_block.h"
#include "src/cuda/fine/sm90/fine_backward_params.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/plan/schedule.h"

namespace vsa::cuda::sm90 {

/// Of a block without a token, in global memory.
__device__ __forceinline__ const QueryStatistics& statistics_of_nothing() {
  static constexpr QueryStatistics kNothing = QueryStatistics::of_nothing();
  return kNothing;
}

/// @tparam kOwnsKeys  whether items are blocks of keys and queries stream, else the other way round
template <int kHeadDim, int kConsumers, bool kOwnsKeys>
class BackwardProducer {
 public:
  using Smem = BackwardSmem<kHeadDim, kConsumers>;
  using Copy = BlockCopy<Smem::kSlabs>;

  __device__ __forceinline__ BackwardProducer(const FineBackwardParams& params, Smem& smem,
                                              uint32_t stream)
      : p_(params),
        own_(kOwnsKeys ? params.kv : params.q),
        other_(kOwnsKeys ? params.q : params.kv),
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
      barrier_wait(smem_address(&s_.empty_own), s_.item_parity ^ 1);
      if (item >= p_.num_items) break;
      produce(item);
      __syncwarp();
      if (lane_ == 0) s_.item_parity ^= 1;
      __syncwarp();
    }
    if (lane_ == 0) {
      s_.item[s_.item_parity].idx = -1;
      barrier_arrive(smem_address(&s_.full_own));
    }
  }

 private:
  struct TileList {
    const int32_t* index;
    int32_t count;
  };

  __device__ __forceinline__ void produce(int32_t item) {
    int32_t taken = 0;  // asked for now, so that it arrives while the consumers' own is fetched
    if (lane_ == 0) taken = atomicAdd(p_.next_item, kConsumers);
    const bool has_tokens = load_own(item);
    if (lane_ == 0) s_.next_item = taken + static_cast<int32_t>(2 * grid_dim());
    const int32_t head_idx = item / own_.plan.num_blocks();
    const int32_t tile = item % own_.plan.num_blocks() / own_.plan.blocks_per_tile;
    packer_ = {};
    if (has_tokens) {
      if constexpr (kOwnsKeys) {
        other_head_ = head_idx * p_.group_size;
#pragma unroll 1
        do {
          const int64_t row = int64_t{other_head_} * own_.plan.num_tiles + tile;
          const int64_t begin = __ldg(p_.lut_t.offset + row);
          feed({p_.lut_t.index + begin,
                static_cast<int32_t>(__ldg(p_.lut_t.offset + row + 1) - begin)});
          packer_.row = kBlockTokens;  // a step is of one head
        } while (++other_head_ % p_.group_size != 0);
      } else {
        other_head_ = head_idx / p_.group_size;
        const int64_t row = int64_t{head_idx} * own_.plan.num_tiles + tile;
        feed({p_.lut.index + row * p_.lut.dims.pitch,
              clamp_to(__ldg(p_.lut.count + row), static_cast<int32_t>(p_.lut.dims.pitch))});
      }
    }
    if (packer_.num_steps > 0) {
      close_step(true);
    } else {
      announce_item(false);
    }
  }

  __device__ __forceinline__ static Block block_at(const BackwardSide& side, int32_t idx) {
    const int4 block = __ldg(reinterpret_cast<const int4*>(side.blocks) + idx);
    return {block.x, block.y, block.z, static_cast<uint32_t>(block.w)};
  }

  /// Coordinates of a head in both maps of a side.
  __device__ __forceinline__ void set_head(const BackwardSide& side, int32_t head_idx) {
    if (const uint32_t which = thread_idx() % 32; which < 2) {
      s_.head[which] = head_idx / side.num_heads * side.step[which].batch +
                       head_idx % side.num_heads * side.step[which].head;
    }
    __syncwarp();
  }

  /// Starts copying the consumers' own blocks.
  /// @return whether there is a token among them
  __device__ __forceinline__ bool load_own(int32_t item_idx) {
    set_head(own_, item_idx / own_.plan.num_blocks());
    const uint32_t full = smem_address(&s_.full_own);
    int tokens = 0;
#pragma unroll
    for (int c = 0; c < kConsumers; ++c) {
      const Block block = block_at(own_, item_idx % own_.plan.num_blocks() + c);
      tokens += block.len();
      if (lane_ != 0) continue;
      s_.item[s_.item_parity].block[c] = block;
      barrier_expect(full, 2 * Copy::bytes(block));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Copy::start(own_.maps[i], block, smem_address(buffers_.own[c][i]), 0, s_.head[i], full);
      }
    }
    if (lane_ == 0) s_.item[s_.item_parity].idx = item_idx;
    __syncwarp();
    return tokens > 0;
  }

  /// All steps of one list.
  __device__ __forceinline__ void feed(const TileList& list) {
    set_head(other_, other_head_);
    bool has_short = true;
#pragma unroll 1
    for (bool packs = false; has_short; packs = true) {
      has_short = false;
#pragma unroll 1
      for (int32_t base = 0; base < list.count * other_.plan.blocks_per_tile; base += 32) {
        int32_t idx = 0;
        const Block block = block_of(list, base + static_cast<int32_t>(lane_), idx);
        const unsigned full = __ballot_sync(~0U, block.len() == kBlockTokens);
        const unsigned some = __ballot_sync(~0U, block.len() > 0) & ~full;
        has_short = has_short || (!packs && some != 0);
#pragma unroll 1
        for (unsigned left = packs ? some : full; left != 0; left &= left - 1) {
          const int from = __ffs(static_cast<int>(left)) - 1;
          load({__shfl_sync(~0U, block.w, from), __shfl_sync(~0U, block.h, from),
                __shfl_sync(~0U, block.f, from), __shfl_sync(~0U, block.bits, from)},
               __shfl_sync(~0U, idx, from));
        }
      }
    }
  }

  /// Block i of the tiles on the list; one without rows if there is none.
  __device__ __forceinline__ Block block_of(const TileList& list, int32_t i, int32_t& idx) const {
    const int32_t per_tile = other_.plan.blocks_per_tile;
    if (i < list.count * per_tile) {
      const int32_t tile = __ldg(list.index + i / per_tile);
      if (tile >= 0 && tile < other_.plan.num_tiles) {
        idx = tile * per_tile + i % per_tile;
        return block_at(other_, idx);
      }
    }
    return {0, 0, 0, 0};
  }

  /// Starts copying a block into the open step, or into the next if it has no room.
  __device__ __forceinline__ void load(const Block& block, int32_t idx) {
    const bool is_first = packer_.num_steps == 0;
    const auto [row, opens_step] = packer_.place(block.len());
    if (opens_step) {
      if (is_first) {
        announce_item(true);
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

  /// One of the two tensors of a block, and what belongs to its queries.
  template <int kWhich>
  __device__ __forceinline__ void copy(const Block& block, int32_t idx, int32_t row,
                                       const uint8_t (&buffer)[Smem::kBufferBytes],
                                       float (&statistics)[kBlockTokens], uint64_t& full) const {
    if (lane_ != 0) return;
    const auto rows = static_cast<uint32_t>((block.len() + 7) / 8 * 8);
    const uint32_t statistics_bytes = kOwnsKeys ? rows * sizeof(float) : 0;
    barrier_expect(smem_address(&full), Copy::bytes(block) + statistics_bytes);
    Copy::start(other_.maps[kWhich], block, smem_address(buffer), row, s_.head[kWhich],
                smem_address(&full));
    if constexpr (kOwnsKeys) {
      const QueryStatistics& from =
          p_.statistics[int64_t{other_head_} * other_.plan.num_blocks() + idx];
      copy_bytes(smem_address(statistics + row), kWhich == 0 ? from.minus_lse_log2 : from.delta,
                 statistics_bytes, smem_address(&full));
    }
  }

  __device__ __forceinline__ void close_step(bool is_last) {
    const uint64_t bits = s_.step[first_.idx()].row_bits;
    if (bits != ~uint64_t{0}) {
      // Their probabilities are 0, but 0 * NaN is NaN, and what lies there is old.
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

  /// Statistics of the open step's rows behind its last block. By a copy, as all others come: so
  /// nothing but the slot's barriers orders them before their use and after that of the old.
  __device__ __forceinline__ void fill_statistics(uint64_t row_bits) const {
    const int32_t row = (kBlockTokens - __clzll(static_cast<int64_t>(row_bits)) + 7) / 8 * 8;
    if (row == kBlockTokens || thread_idx() % 32 != 0) return;
    const auto fill = [row](float(&to)[kBlockTokens], const float* from, uint64_t& full) {
      const uint32_t bytes = static_cast<uint32_t>(kBlockTokens - row) * sizeof(float);
      barrier_expect(smem_address(&full), bytes);
      copy_bytes(smem_address(to + row), from, bytes, smem_address(&full));
    };
    const QueryStatistics& nothing = statistics_of_nothing();
    fill(s_.minus_lse_log2[first_.idx()], nothing.minus_lse_log2, s_.full_first[first_.idx()]);
    fill(s_.delta[second_.idx()], nothing.delta, s_.full_second[second_.idx()]);
  }

  __device__ __forceinline__ void announce_item(bool has_steps) {
    if (lane_ != 0) return;
    s_.item[s_.item_parity].has_steps = has_steps ? 1 : 0;
    barrier_arrive(smem_address(&s_.full_own));
  }

  const FineBackwardParams& p_;
  const BackwardSide &own_, &other_;
  typename Smem::Buffers& buffers_;
  typename Smem::Stream& s_;
  const uint32_t lane_;
  int32_t other_head_ = 0;  // of the side that streams: batch * its num_heads
  StepPacker packer_;       // steps of the item
  RingSlot<Smem::kFirstStages> first_;
  RingSlot<Smem::kSecondStages> second_;
};

}  // namespace vsa::cuda::sm90
