// One call of the C ABI made from arbitrary bytes: right in most arguments, wrong in some.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "vsa/c_api.h"

namespace vsa::test {

/// What became of the call.
struct HostileOutcome {
  std::string operation;  ///< "fine"
  vsa_status status = VSA_OK;
  std::string fault;  ///< what the library did wrong; empty if nothing
};

inline constexpr int kNumHostileOperations = 13;

/// Makes plans, tensors and lists out of the bytes, in memory of just the right size, and calls one
/// entrance. Faults it finds: memory written that is no output's, outputs touched by a refused
/// call, an error without a text, an internal error.
HostileOutcome hostile_call(std::span<const uint8_t> bytes);

}  // namespace vsa::test
