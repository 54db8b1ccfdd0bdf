// The order in which a producer warp processes units: static at head_dim 64, from a queue at 128.
// Which CTA computes a unit does not change its bits. Device-only.
//
// Both classes: unit() is the current unit, parity() the number of units before it modulo 2, which
// is the phase of barriers that complete once for each unit, and next() moves on.
#pragma once

#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda::sm90 {

/// At head_dim 64: consumers take units with a fixed stride.
class StaticUnits {
 public:
  using WorkUnit = sm90::WorkUnit<64>;

  __device__ __forceinline__ StaticUnits(const FineParams& /*params*/, FineSmem<64>& /*smem*/,
                                         uint32_t consumer, bool /*is_leader*/)
      : unit_(WorkUnit::first_unit(blockIdx.x, static_cast<int>(consumer), gridDim.x)) {}

  __device__ __forceinline__ int32_t unit() const { return unit_; }
  __device__ __forceinline__ uint32_t parity() const { return parity_; }
  __device__ __forceinline__ int32_t next() {
    parity_ ^= 1;
    return unit_ += WorkUnit::num_first_units(gridDim.x);
  }

 private:
  int32_t unit_;
  uint32_t parity_ = 0;
};

/// At head_dim 128: the first unit of a CTA is fixed; after it the CTA takes units from a queue, an
/// atomic counter, because lists differ in length and multiprocessors in speed. One producer warp
/// of the CTA is the leader: it takes the unit and writes it to shared memory, where the three
/// other producer warps read it.
class UnitQueue {
 public:
  using WorkUnit = sm90::WorkUnit<128>;
  static_assert(kUnitStages == 2, "the slot of a unit is its parity");

  __device__ __forceinline__ UnitQueue(const FineParams& params, FineSmem<128>& smem,
                                       uint32_t /*consumer*/, bool is_leader)
      : p_(params),
        s_(smem),
        is_leader_(is_leader),
        unit_(WorkUnit::first_unit(blockIdx.x, 0, gridDim.x)) {
    request_next();
  }

  __device__ __forceinline__ int32_t unit() const { return unit_; }
  __device__ __forceinline__ uint32_t parity() const { return slot_; }

  /// Moves on to the next unit. Its number may be beyond the last unit: then there are no more.
  __device__ __forceinline__ int32_t next() {
    if (is_leader_) {
      unit_ = __shfl_sync(kAllLanes, next_, 0);
      barrier_wait(smem_address(&s_.empty_unit[slot_]), parity_ ^ 1);
      if (threadIdx.x % 32 == 0) {
        s_.unit[slot_] = unit_;
        barrier_arrive(smem_address(&s_.full_unit[slot_]));
      }
      __syncwarp();
      request_next();
    } else {
      barrier_wait(smem_address(&s_.full_unit[slot_]), parity_);
      if (threadIdx.x % 32 == 0) {
        unit_ = s_.unit[slot_];
        barrier_arrive(smem_address(&s_.empty_unit[slot_]));
      }
      unit_ = __shfl_sync(kAllLanes, unit_, 0);
    }
    parity_ ^= slot_;
    slot_ ^= 1;
    return unit_;
  }

 private:
  /// Takes the next unit from the queue one unit ahead, which hides the latency of the atomic.
  __device__ __forceinline__ void request_next() {
    if (is_leader_ && threadIdx.x % 32 == 0) {
      next_ = atomicAdd(p_.queue_head, 1) + WorkUnit::num_first_units(gridDim.x);
    }
  }

  const FineParams& p_;
  FineSmem<128>& s_;
  const bool is_leader_;
  int32_t unit_;
  int32_t next_ = 0;                // the unit that was requested; in lane 0 of the leader
  uint32_t slot_ = 0, parity_ = 0;  // of s_.unit: the slot that is used next, and its phase
};

}  // namespace vsa::cuda::sm90
