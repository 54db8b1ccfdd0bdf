// A tile plan as tables for kernels. They are filled on the device from kernel parameters, so the
// host may free its memory when the call returns. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <span>
#include <string_view>
#include <vector>

#include "src/cuda/plan/block.h"
#include "src/cuda/support/call.h"
#include "vsa/status.h"
#include "vsa/tiling.h"

namespace vsa::cuda {

/// A plan on the host, as make_block (block.h) needs it.
struct PlanImage {
  PlanShape shape;
  std::vector<Run> runs;  // [num_runs]
  /// Of a plan whose tiles are neither cuboids nor runs: the position for each position of compact
  /// order; the plan's own memory. Empty: shape.tokens stays null.
  std::span<const int32_t> tokens{};
};
/// @return Unsupported if the plan has 2^28 blocks or more
Result<PlanImage> plan_image(std::string_view operation, const TilePlan& plan);

/// A plan on the device.
struct PlanTable {
  PlanShape shape;
  Block* blocks = nullptr;      // [num_blocks]
  int32_t* tile_len = nullptr;  // [num_tiles]
  /// Whether kernels that read whole blocks need a copy of their tensor in compact order. (In a
  /// query of the workspace there is no table to tell it by.)
  bool is_scattered = false;
};

/// The tables of one or two plans in a workspace. If both are the same object, they share one
/// table.
class PlanTables {
 public:
  /// Takes the memory. Call `status` before anything else, and `build` before a kernel reads the
  /// tables.
  PlanTables(std::string_view operation, Carver& workspace, const TilePlan* q_plan,
             const TilePlan* kv_plan = nullptr);
  const Status& status() const { return status_; }

  /// Enqueues the kernels that fill the tables.
  Status build(const CallSite& at) const;

  const PlanTable& q() const { return tables_[0]; }
  const PlanTable& kv() const { return tables_[same_ ? 0 : 1]; }

 private:
  Status status_;
  bool same_ = true;
  int num_tables_ = 0;
  PlanTable tables_[2];
  PlanImage images_[2];
  Run* runs_[2] = {nullptr, nullptr};        // on the device
  int32_t* tokens_[2] = {nullptr, nullptr};  // on the device
};

/// Enqueues kernels that write `count` int32 to device memory. The values are kernel parameters, so
/// that `from` may be freed at once and a captured graph contains them.
Status upload(const CallSite& at, const int32_t* from, int64_t count, int32_t* to);

/// Call::run, once the tables of the call's plans have been filled.
template <class Args, class Enqueue>
Status run(const Call& call, const PlanTables& plans, const Args& args, const Enqueue& enqueue) {
  VSA_TRY(plans.status());
  return call.run(args, [&](const CallSite& at) -> Status {
    VSA_TRY(plans.build(at));
    return enqueue(at);
  });
}

}  // namespace vsa::cuda
