// What `vsa bench` times: the stages and the operator on one problem. Host-only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/check.h"
#include "cli/bench/gemm_base.h"
#include "cli/bench/problem.h"
#include "cli/common/device.h"

namespace vsa::cli {

struct Contestant {
  std::string stage;
  std::string baseline = {};            ///< the contestant that `speedup` is against; empty: none
  double flops = 0.0;                   ///< of executed pairs; 0: not counted
  double bytes = 0.0;                   ///< inputs and outputs, each once
  std::shared_ptr<Device> device = {};  ///< where it runs; null: on the host
  std::function<Status()> run = {};     ///< on a device it only enqueues
  std::function<CheckResult()> check = {};  ///< of the outputs of the first run; empty: needs none
  std::string refusal = {};  ///< why the backend cannot run it; empty: as far as is known, it can
};

/// Names of all stages in the order in which they run: "gemm", "dense", "tile", ...,
/// "attention", and the same with "_backward".
std::vector<std::string> bench_stages();

/// Contestants of the given stages (all if empty), in that order. Those that `problem` knows to be
/// refused have a refusal instead of a run. Where tensors are in device memory each has copies of
/// its inputs on the device, and the gemm is refused if it is asked for, because it runs on the
/// processor.
///   dense  the fine stage with every kv tile kept
/// Backward counts 2.5 times the FLOPs of forward, as is usual: five products of the same size
/// instead of two, whatever a backend computes twice.
std::vector<Contestant> contestants(BenchProblem& problem, GemmBase& gemm, const Context& context,
                                    const std::vector<std::string>& stages);

}  // namespace vsa::cli
