// Which entry of a layer's position table a pair of tokens reads. Host-only.
#include "runtime/text/relative_bucket.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace vsa::text {

int64_t relative_bucket(int64_t relative, int64_t num_buckets, int64_t max_distance) {
  const int64_t half = num_buckets / 2;
  const int64_t base = relative > 0 ? half : 0;
  const int64_t distance = std::abs(relative);
  const int64_t exact = half / 2;
  if (distance < exact) return base + distance;
  // In f32, as the models were trained: at bucket edges f64 can fall on the other side.
  const float position =
      std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact))) *
      static_cast<float>(half - exact);
  return base + std::min(half - 1, exact + static_cast<int64_t>(position));
}

}  // namespace vsa::text
