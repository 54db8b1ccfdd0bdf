// Arguments for hostile calls: plans, tensors, tables, lists that bytes decide.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tests/support/byte_source.h"
#include "tests/support/guarded_memory.h"
#include "vsa/c_api.h"

namespace vsa::test {

struct DestroyPlan {
  void operator()(vsa_plan* plan) const { vsa_plan_destroy(plan); }
};
using PlanHandle = std::unique_ptr<vsa_plan, DestroyPlan>;

/// Hands out arguments near the right ones. Memory is as large as the argument says. If the
/// argument is valid but says more than kMaxBytes, its data is null. If the argument is invalid, so
/// that the library must refuse it without reading its data, the data is a block of a few bytes.
class HostileArgs {
 public:
  static constexpr int64_t kMaxBytes = 1 << 16;
  using Shape = std::array<int64_t, 4>;

  explicit HostileArgs(ByteSource& bytes) : bytes_(bytes) {}

  vsa_context context();
  /// The extents of this call, right ones to start from.
  Shape q_shape, kv_shape;
  int64_t num_q_tiles = 0, num_kv_tiles = 0;
  int32_t dtype = VSA_F32;

  const vsa_plan* q_plan() { return bytes_.one_in(64) ? nullptr : q_plan_.get(); }
  const vsa_plan* kv_plan() { return bytes_.one_in(64) ? nullptr : kv_plan_.get(); }
  /// Makes both plans and all extents. False if the library refused a plan.
  bool make_plans();

  vsa_const_tensor input(Shape right, int32_t right_dtype);
  vsa_tensor output(Shape right, int32_t right_dtype);
  /// Left out one time in four.
  vsa_tensor optional_output(Shape right, int32_t right_dtype);
  vsa_gate gate();
  vsa_scale scale();
  vsa_const_lut input_lut();
  vsa_lut output_lut(int64_t right_pitch);
  vsa_select_options select_options();

  /// Of all outputs handed out: their elements may change.
  void accept_outputs();
  GuardedMemory& memory() { return memory_; }

 private:
  PlanHandle make_plan();
  vsa_tensor tensor(Shape right, int32_t right_dtype, bool may_broadcast);
  void* data_for(const vsa_tensor& t);
  std::vector<int32_t> ascending(int64_t end, int64_t most);
  std::vector<int32_t>& list(int64_t end);

  ByteSource& bytes_;
  GuardedMemory memory_;
  PlanHandle q_plan_, kv_plan_;
  std::vector<vsa_tensor> outputs_;
  std::vector<vsa_lut> output_luts_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> lists_;
};

}  // namespace vsa::test
