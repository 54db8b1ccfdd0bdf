// From sampler output to 8-bit pixels. Host-only.
#pragma once

#include <cstdint>

namespace vsa::video {

/// A channel value in [-1, 1] (clamped) as a byte, truncated.
uint8_t to_byte(float x);

}  // namespace vsa::video
