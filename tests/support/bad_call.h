// Calls with one wrong argument each: they must be refused by a message that names this argument.
//
// A Setup is a struct with `Arena arena`, `Context context`, `args`, all valid, and
// `Status run() const`.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/arena.h"
#include "vsa/stages.h"

namespace vsa::test {

template <class Setup>
struct BadCall {
  std::string name;
  std::function<void(Setup&)> spoil;
  std::string argument;
  StatusCode code = StatusCode::kInvalidArgument;
};

/// Runs the spoiled call: it must name the argument and leave all memory as it was.
template <class Setup>
void expect_refused(const BadCall<Setup>& bad, std::string_view operation) {
  Setup setup;
  bad.spoil(setup);
  const auto before = setup.arena.bytes();
  const Status status = setup.run();
  EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status.message();
  EXPECT_THAT(status.message(),
              testing::StartsWith(fmt::format("[{}] {}: expected ", operation, bad.argument)))
      << bad.name;
  EXPECT_TRUE(before == setup.arena.bytes()) << bad.name << ": memory was touched";
}

template <class Setup>
void expect_refused(const std::vector<BadCall<Setup>>& calls, std::string_view operation) {
  for (const auto& call : calls) expect_refused(call, operation);
}

enum class Role {
  kFirst,           ///< an input from which other arguments' extents and dtype follow
  kInput,           ///< any other input
  kOptionalInput,   ///< one that may be left out
  kOutput,          ///< must be given
  kOptionalOutput,  ///< may be left out
};

/// Everything that can be wrong with one tensor of the call, whatever the call is.
/// @param get  the tensor in the arguments
template <class Setup, class Get>
std::vector<BadCall<Setup>> bad_tensors(const std::string& argument, Role role, Get get) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  std::vector<BadCall<Setup>> calls;
  const auto add = [&](const std::string& name, auto spoil,
                       StatusCode code = StatusCode::kInvalidArgument) {
    calls.push_back({.name = argument + " " + name,
                     .spoil = [get, spoil](Setup& setup) { spoil(get(setup)); },
                     .argument = argument,
                     .code = code});
  };
  if (role == Role::kFirst || role == Role::kInput || role == Role::kOutput)
    add("null", [](auto& t) { t.data = nullptr; });
  add("dtype outside the enum", [](auto& t) { t.dtype = static_cast<DType>(7); });
  add("negative dtype", [](auto& t) { t.dtype = static_cast<DType>(-1); });
  add(
      "f64 on cpu", [](auto& t) { t.dtype = DType::kF64; }, StatusCode::kUnsupported);
  for (size_t axis = 0; axis < 4; ++axis) {
    for (const int64_t extent : {int64_t{0}, int64_t{-1}, -kMax - 1, kMax}) {
      if (role == Role::kFirst && extent == kMax) continue;  // others are then judged by it
      add(fmt::format("extent {} on axis {}", extent, axis),
          [=](auto& t) { t.shape[axis] = extent; });
    }
    if (role != Role::kFirst) {
      add(fmt::format("axis {} too long", axis), [=](auto& t) { ++t.shape[axis]; });
    }
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    for (const int64_t stride : {kMax, kMax / 4, -kMax - 1, -kMax}) {
      add(fmt::format("stride {} on axis {}", stride, axis),
          [=](auto& t) { t.stride[axis] = stride; });
    }
  }
  add("misaligned", [](auto& t) {
    t.data = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(t.data) + 1);
  });
  if (role == Role::kOutput || role == Role::kOptionalOutput) {
    for (size_t axis = 0; axis < 3; ++axis) {
      add(fmt::format("broadcast axis {}", axis), [=](auto& t) { t.stride[axis] = 0; });
      add(fmt::format("negative axis {}", axis),
          [=](auto& t) { t.stride[axis] = -t.stride[axis]; });
    }
    add("rows overlap by one", [](auto& t) { t.stride[2] = t.shape[3] - 1; });
  }
  return calls;
}

/// The last axis with a stride; only for tensors of more than one column.
template <class Setup, class Get>
BadCall<Setup> strided_last_axis(const std::string& argument, Get get) {
  return {.name = argument + " strided last axis",
          .spoil = [get](Setup& setup) { get(setup).stride[3] = 2; },
          .argument = argument};
}

}  // namespace vsa::test
