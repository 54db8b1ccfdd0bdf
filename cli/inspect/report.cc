// The text and the JSON that `vsa inspect` prints. Host-only.
#include "cli/inspect/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/common/table.h"

namespace vsa::cli {
namespace {

/// "1,0,3": where a tile lies in its grid of tiles.
std::array<int64_t, 3> coordinates(int64_t tile, const Grid& tile_grid) {
  return {tile / (tile_grid.h * tile_grid.w), tile / tile_grid.w % tile_grid.h, tile % tile_grid.w};
}

nlohmann::ordered_json to_json(const RowReport& row, const Grid& tile_grid) {
  nlohmann::ordered_json tiles = nlohmann::ordered_json::array();
  for (const int32_t t : row.kept) {
    tiles.push_back({{"tile", t},
                     {"at", coordinates(t, tile_grid)},
                     {"score", row.scores[static_cast<size_t>(t)]},
                     {"coarse_probability", row.probabilities[static_cast<size_t>(t)]}});
  }
  return {{"head", row.head}, {"row", row.row}, {"kept", tiles}};
}

nlohmann::ordered_json to_json(const HeadReport& head) {
  return {{"head", head.head},
          {"kept_share", head.kept_share},
          {"mass_mean", head.mass.mean},
          {"mass_least", head.mass.least}};
}

std::string to_text(const RowReport& row, const Grid& tile_grid) {
  Table table({"kv tile", "at f,h,w", "score", "coarse probability"});
  for (const int32_t t : row.kept) {
    table.add({fmt::format("{}", t), fmt::format("{}", fmt::join(coordinates(t, tile_grid), ",")),
               fmt::format("{:.4f}", row.scores[static_cast<size_t>(t)]),
               fmt::format("{:.4f}", row.probabilities[static_cast<size_t>(t)])});
  }
  return fmt::format("\nhead {}, query tile {} keeps {} tiles:\n{}", row.head, row.row,
                     row.kept.size(), table.to_string());
}

}  // namespace

nlohmann::ordered_json to_json(const InspectReport& report) {
  nlohmann::ordered_json result = {{"num_q_tiles", report.num_q_tiles},
                                   {"num_kv_tiles", report.num_kv_tiles},
                                   {"topk", report.topk},
                                   {"mass_tiles", report.mass_tiles},
                                   {"mass_of_all_tiles", report.mass_of_all_tiles()},
                                   {"heads", nlohmann::ordered_json::array()}};
  for (const HeadReport& head : report.heads) result["heads"].push_back(to_json(head));
  for (const RowReport& row : report.rows) {
    result["rows"].push_back(to_json(row, report.kv_tile_grid));
  }
  if (!report.png.empty()) result["png"] = report.png;
  return result;
}

std::string to_text(const InspectReport& report) {
  Table table({"head", "kept", "mass in kept tiles", "least of a token"});
  for (const HeadReport& head : report.heads) {
    table.add({fmt::format("{}", head.head), fmt::format("{:.2f} %", 100.0 * head.kept_share),
               fmt::format("{:.2f} %", 100.0 * head.mass.mean),
               fmt::format("{:.2f} %", 100.0 * head.mass.least)});
  }
  std::string text = fmt::format(
      "{} query tiles, {} kv tiles, topk {}\nmass: share of the dense softmax, {}\n\n",
      report.num_q_tiles, report.num_kv_tiles, report.topk,
      report.mass_of_all_tiles()
          ? std::string("over all query tiles")
          : fmt::format("over {} sampled query tiles (--mass-tiles)", report.mass_tiles));
  text += table.to_string();
  for (const RowReport& row : report.rows) text += to_text(row, report.kv_tile_grid);
  if (!report.png.empty()) text += fmt::format("\nheat maps: {}\n", report.png);
  return text;
}

}  // namespace vsa::cli
