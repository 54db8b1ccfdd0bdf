// Chooses the instruction set: the best one there is, or the one that VSA_ISA names. Host-only.
#include "src/cpu/support/isa.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "src/cpu/support/targets.h"
// targets.h sets which targets Highway's headers enable.
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace vsa::cpu {
namespace {

struct Isa {
  std::string_view name;  ///< as in VSA_ISA
  int64_t target;
  std::string_view detail;
};

// Best first. The baseline is what the compiler uses without further flags; on Arm that can be NEON
// itself.
constexpr std::array kIsas{
    Isa{"avx512", HWY_AVX3, "AVX-512 (AVX3)"},
    Isa{"avx2", HWY_AVX2, "AVX2"},
    Isa{"neon", HWY_NEON, "NEON"},
    Isa{"baseline", HWY_STATIC_TARGET, "baseline"},
};

/// Whether the files with kernels are compiled for this target, and the machine has it. This file
/// is not compiled once for each target, so it repeats Highway's rule: the static target and every
/// attainable target above it are compiled.
bool runs_here(const Isa& isa) {
  const bool compiled = (HWY_TARGETS & isa.target) != 0;
  return compiled &&
         (isa.target == HWY_STATIC_TARGET || (hwy::SupportedTargets() & isa.target) != 0);
}

std::string names_of_those_that_run() {
  std::string names;
  for (const Isa& isa : kIsas) {
    if (!runs_here(isa)) continue;
    if (!names.empty()) names += ", ";
    names += isa.name;
  }
  return names;
}

std::atomic<int64_t> last_target_run{0};

}  // namespace

IsaChoice choose_isa(const std::string& wanted) {
  for (const Isa& isa : kIsas) {
    if (!runs_here(isa) || (!wanted.empty() && wanted != isa.name)) continue;
    std::string detail(isa.detail);
    if (isa.name == "baseline") detail += fmt::format(" ({})", hwy::TargetName(isa.target));
    return {.target = isa.target, .name = isa.name, .detail = detail};
  }
  return {.target = 0,
          .name = {},
          .detail = fmt::format("VSA_ISA: expected one of {}, got {}", names_of_those_that_run(),
                                wanted)};
}

const IsaChoice& isa() {
  static const IsaChoice choice = [] {
    const char* wanted = std::getenv("VSA_ISA");
    return choose_isa(wanted == nullptr ? "" : wanted);
  }();
  return choice;
}

size_t dispatch_idx() {
  static const size_t idx = [] {
    hwy::ChosenTarget chosen;
    chosen.Update(isa().target);
    return chosen.GetIndex();
  }();
  return idx;
}

int64_t last_target() { return last_target_run.load(std::memory_order_relaxed); }
void record_target(int64_t target) { last_target_run.store(target, std::memory_order_relaxed); }

}  // namespace vsa::cpu
