// Which kv tiles one query tile keeps. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "vsa/stages.h"

namespace vsa::cpu {

/// The kv tiles that query tile `q_tile` keeps by its scores[0, num_kv_tiles), ascending, into
/// `kept`, which must have capacity for lut_pitch() of them; `ranks` capacity for num_kv_tiles.
/// Both are reused from row to row, so that no row allocates.
void select_row(const float* scores, int64_t num_kv_tiles, int64_t q_tile,
                const SelectOptions& options, std::vector<uint64_t>& ranks,
                std::vector<int32_t>& kept);

/// Writes a row of `select` to the table: its tiles, then -1 up to the pitch.
void store_lut_row(const Lut& lut, int64_t row, std::span<const int32_t> kept);

}  // namespace vsa::cpu
