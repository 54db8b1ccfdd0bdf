// Brings fp32 rows into the panels that the matrix product reads. Host-only.
#pragma once

#include <cstdint>

namespace vsa::cpu {

/// to = packed panels of from^T: the `count` rows become columns (keys become lanes). Columns
/// up to the next multiple of the vector width are 0. `to` holds head_dim * round_up_lanes(count)
/// floats.
void pack_transposed(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* to);

/// to = packed panels of the `count` rows themselves (dims are lanes). Columns from head_dim up to
/// ld must be readable. `to` holds count * ld floats; ld = round_up_lanes(head_dim).
void pack_rows(const float* from, int64_t ld, int64_t count, int64_t head_dim, float* to);

}  // namespace vsa::cpu
