// From sampler output to 8-bit pixels. Host-only.
#include "runtime/video/pixels.h"

#include <algorithm>

namespace vsa::video {

uint8_t to_byte(float x) {
  // Truncated, not rounded: what diffusers' and Wan's exporters do.
  return static_cast<uint8_t>(std::clamp((x * 0.5F + 0.5F) * 255.0F, 0.0F, 255.0F));
}

}  // namespace vsa::video
