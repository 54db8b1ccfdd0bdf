// Which units a producer warp goes through. Who computes a unit does not change its bits.
// Device-only.
#pragma once

#include "src/cuda/fine/sm90/fine_params.h"
#include "src/cuda/fine/sm90/ptx.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda::sm90 {

/// At head_dim 64: a consumer's units are spread evenly.
class UnitsInTurn {
 public:
  using Unit = sm90::Unit<64>;

  __device__ __forceinline__ UnitsInTurn(const FineParams& /*params*/, FineSmem<64>& /*smem*/,
                                         uint32_t consumer, bool /*leads*/)
      : unit_(Unit::first(blockIdx.x, static_cast<int>(consumer), gridDim.x)) {}

  __device__ __forceinline__ int32_t unit() const { return unit_; }
  __device__ __forceinline__ uint32_t parity() const { return parity_; }
  __device__ __forceinline__ int32_t next() {
    parity_ ^= 1;
    return unit_ += Unit::num_first(gridDim.x);
  }

 private:
  int32_t unit_;
  uint32_t parity_ = 0;
};

/// At 128: a CTA's first unit is its own, then whoever is free takes the next from a queue, as
/// lists differ in length and multiprocessors in speed. One warp of a CTA leads: it takes, and the
/// others see in shared memory what it took.
class UnitQueue {
 public:
  using Unit = sm90::Unit<128>;
  static_assert(kUnitStages == 2, "the slot of a unit is its parity");

  __device__ __forceinline__ UnitQueue(const FineParams& params, FineSmem<128>& smem,
                                       uint32_t /*consumer*/, bool leads)
      : p_(params), s_(smem), leads_(leads), unit_(Unit::first(blockIdx.x, 0, gridDim.x)) {
    take();
  }

  __device__ __forceinline__ int32_t unit() const { return unit_; }
  /// Of barriers that go through a phase a unit.
  __device__ __forceinline__ uint32_t parity() const { return slot_; }

  /// Goes on to the next, which may be beyond the last.
  __device__ __forceinline__ int32_t next() {
    if (leads_) {
      unit_ = __shfl_sync(kAllLanes, taken_, 0);
      barrier_wait(smem_address(&s_.empty_unit[slot_]), parity_ ^ 1);
      if (threadIdx.x % 32 == 0) {
        s_.unit[slot_] = unit_;
        barrier_arrive(smem_address(&s_.full_unit[slot_]));
      }
      __syncwarp();
      take();
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
  /// Asks for the unit after the next, so that it is there when it is wanted.
  __device__ __forceinline__ void take() {
    if (leads_ && threadIdx.x % 32 == 0) {
      taken_ = atomicAdd(p_.num_taken, 1) + Unit::num_first(gridDim.x);
    }
  }

  const FineParams& p_;
  FineSmem<128>& s_;
  const bool leads_;
  int32_t unit_;
  int32_t taken_ = 0;               // of the leader's lane 0
  uint32_t slot_ = 0, parity_ = 0;  // of what is shared next, and of its phase
};

}  // namespace vsa::cuda::sm90
