// Which entry of a layer's position table a pair of tokens reads. Host-only.
#pragma once

#include <cstdint>

namespace vsa::text {

/// The bucket of a relative position key - query: half the buckets for each direction, near
/// distances one by one, far ones on a logarithmic scale up to max_distance.
int64_t relative_bucket(int64_t relative, int64_t num_buckets, int64_t max_distance);

}  // namespace vsa::text
