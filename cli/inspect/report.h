// What `vsa inspect` prints. Host-only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/inspect/data.h"

namespace vsa::cli {

/// The report of one head.
struct HeadReport {
  int64_t head = 0;
  double kept_share = 0.0;
  Mass mass;
};

/// The report of one query tile of one head.
struct RowReport {
  int64_t head = 0, row = 0;
  std::vector<int32_t> kept;
  std::vector<double> probabilities;  ///< [num_kv_tiles]
  std::vector<float> scores;          ///< [num_kv_tiles]
};

struct InspectReport {
  int64_t num_q_tiles = 0, num_kv_tiles = 0, topk = 0;
  int64_t mass_tiles = 0;  ///< query tiles whose mass was computed
  Grid kv_tile_grid;       ///< in tiles
  std::vector<HeadReport> heads;
  std::vector<RowReport> rows;
  std::string png;  ///< folder of the heat maps; empty: none

  bool mass_of_all_tiles() const { return mass_tiles == num_q_tiles; }
};

nlohmann::ordered_json to_json(const InspectReport& report);
/// Tables for people.
std::string to_text(const InspectReport& report);

}  // namespace vsa::cli
