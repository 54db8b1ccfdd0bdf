// The instruction set that the runtime computes with. Host-only.
#include "runtime/nn/isa.h"

#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

#include "runtime/nn/targets.h"
#include "vsa/backend.h"
// targets.h sets which targets Highway's headers enable.
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace vsa::nn {
namespace {

int64_t target_of(std::string_view isa) {
  if (isa == "avx512") return HWY_AVX3;
  if (isa == "avx2") return HWY_AVX2;
  if (isa == "neon") return HWY_NEON;
  return HWY_STATIC_TARGET;
}

/// The widest that oneDNN may use. Its narrowest generated code is SSE4.1; below it has plain C++.
dnnl::cpu_isa onednn_isa(std::string_view isa) {
  if (isa == "avx512") return dnnl::cpu_isa::avx512_core;
  if (isa == "avx2") return dnnl::cpu_isa::avx2;
  if (isa == "baseline") return dnnl::cpu_isa::sse41;
  return dnnl::cpu_isa::all;
}

std::atomic<int64_t> last_target_run{0};

}  // namespace

Status check_isa() {
  static const Status status = [] {
    const Result<std::string_view> isa = cpu_isa();
    if (isa.ok()) dnnl::set_max_cpu_isa(onednn_isa(*isa));
    return isa.status();
  }();
  return status;
}

size_t dispatch_idx() {
  static const size_t idx = [] {
    hwy::ChosenTarget chosen;
    chosen.Update(target_of(cpu_isa().value()));
    return chosen.GetIndex();
  }();
  return idx;
}

int64_t last_target() { return last_target_run.load(std::memory_order_relaxed); }
void record_target(int64_t target) { last_target_run.store(target, std::memory_order_relaxed); }

}  // namespace vsa::nn
