// `vsa inspect`: what the coarse stage selects, and how much of dense attention that holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/failure.h"
#include "cli/heat_map.h"
#include "cli/inspect_data.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/tensor_file.h"
#include "runtime/io/atomic_file.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

struct InspectCommand {
  TensorOptions tensors;
  KeepOptions keep;
  BackendOptions backend;
  int64_t batch = 0;
  std::optional<int64_t> head, row;
  std::optional<int64_t> mass_tiles;
  std::string png;
  bool json = false;
};

/// What is said about one head.
struct HeadReport {
  int64_t head = 0;
  double kept_share = 0.0;
  Mass mass;
};

/// What is said about one query tile of one head.
struct RowReport {
  int64_t head = 0, row = 0;
  std::vector<int32_t> kept;
  std::vector<double> probabilities;
  std::vector<float> scores;
};

int64_t in_range(const char* option, int64_t value, int64_t count) {
  if (value < 0 || value >= count) {
    fail_usage(fmt::format("{}: expected 0 to {}, got {}", option, count - 1, value));
  }
  return value;
}

Grid tile_grid_of(Grid grid, TileShape tile) {
  return {.f = (grid.f + tile.f - 1) / tile.f,
          .h = (grid.h + tile.h - 1) / tile.h,
          .w = (grid.w + tile.w - 1) / tile.w};
}

/// "1,0,3": where a tile lies in its grid of tiles.
std::array<int64_t, 3> coordinates(int64_t tile, const Grid& tile_grid) {
  return {tile / (tile_grid.h * tile_grid.w), tile / tile_grid.w % tile_grid.h, tile % tile_grid.w};
}

/// All query tiles if that costs no more than about 2e9 pairs of tokens over all heads, else as
/// many as that buys, at least 4.
int64_t affordable_mass_tiles(const AttentionInput& input, int64_t num_heads) {
  const double pairs_per_tile =
      static_cast<double>(input.q_plan().tile_tokens() * input.kv_plan().num_valid_tokens());
  const double count = 2e9 / (pairs_per_tile * static_cast<double>(num_heads));
  return std::clamp<int64_t>(static_cast<int64_t>(count), 4, input.q_plan().num_tiles());
}

void save_maps(const fs::path& folder, const HeadMap& map, int64_t head) {
  check(video::write_png(folder / fmt::format("head{:02}-scores.png", head),
                         heat_map(map.scores, map.num_q_tiles, map.num_kv_tiles)));
  std::vector<float> kept(map.scores.size(), 0.0F);
  for (int64_t r = 0; r < map.num_q_tiles; ++r) {
    for (const int32_t t : map.kept(r)) kept[static_cast<size_t>(r * map.num_kv_tiles + t)] = 1.0F;
  }
  check(video::write_png(folder / fmt::format("head{:02}-kept.png", head),
                         heat_map(kept, map.num_q_tiles, map.num_kv_tiles)));
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

/// The whole command, over the heads asked for.
class Inspection {
 public:
  Inspection(const InspectCommand& command, AttentionInput& input, const Context& context)
      : command_(command), input_(input), context_(context) {
    select_.topk = command.keep.topk_of(input.kv_plan().num_tiles());
    in_range("--batch", command.batch, input.batch());
    if (command.head) in_range("--head", *command.head, input.num_heads());
    if (command.row) in_range("--row", *command.row, input.q_plan().num_tiles());
    if (command.mass_tiles && *command.mass_tiles < 1) {
      fail_usage(fmt::format("--mass-tiles: expected at least 1, got {}", *command.mass_tiles));
    }
    first_head_ = command.head.value_or(0);
    end_head_ = command.head ? first_head_ + 1 : input.num_heads();
    sample_ = sample_tiles(input.q_plan(), command.mass_tiles.value_or(affordable_mass_tiles(
                                               input, end_head_ - first_head_)));
  }

  void run(const InterruptScope& interrupt) {
    if (!command_.png.empty()) make_folder();
    ProgressBar bar;
    for (int64_t head = first_head_; head < end_head_; ++head) {
      bar.update("inspect", head - first_head_, end_head_ - first_head_);
      interrupt.check();
      const HeadMap map =
          map_head(context_, input_, command_.batch, head, select_, command_.tensors.scale);
      heads_.push_back({.head = head,
                        .kept_share = map.kept_share(),
                        .mass = captured_mass(context_, input_, command_.batch, head, map, *sample_,
                                              command_.tensors.scale)});
      if (!command_.png.empty()) save_maps(command_.png, map, head);
      if (command_.row) inspect_row(map, head);
    }
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json result = {{"num_q_tiles", input_.q_plan().num_tiles()},
                                     {"num_kv_tiles", input_.kv_plan().num_tiles()},
                                     {"topk", select_.topk},
                                     {"mass_tiles", sample_->tiles.size()},
                                     {"mass_of_all_tiles", mass_is_exact()},
                                     {"heads", nlohmann::ordered_json::array()}};
    for (const HeadReport& head : heads_) result["heads"].push_back(to_json(head));
    for (const RowReport& row : rows_) result["rows"].push_back(to_json(row, kv_tile_grid()));
    if (!command_.png.empty()) result["png"] = command_.png;
    return result;
  }

  std::string text() const {
    Table table({"head", "kept", "mass in kept tiles", "least of a token"});
    for (const HeadReport& head : heads_) {
      table.add({fmt::format("{}", head.head), fmt::format("{:.2f} %", 100.0 * head.kept_share),
                 fmt::format("{:.2f} %", 100.0 * head.mass.mean),
                 fmt::format("{:.2f} %", 100.0 * head.mass.least)});
    }
    std::string text = fmt::format(
        "{} query tiles, {} kv tiles, topk {}\nmass: share of the dense softmax, {}\n\n",
        input_.q_plan().num_tiles(), input_.kv_plan().num_tiles(), select_.topk,
        mass_is_exact()
            ? std::string("over all query tiles")
            : fmt::format("over {} sampled query tiles (--mass-tiles)", sample_->tiles.size()));
    text += table.to_string();
    for (const RowReport& row : rows_) text += to_text(row, kv_tile_grid());
    if (!command_.png.empty()) text += fmt::format("\nheat maps: {}\n", command_.png);
    return text;
  }

 private:
  bool mass_is_exact() const { return std::ssize(sample_->tiles) == input_.q_plan().num_tiles(); }
  Grid kv_tile_grid() const { return tile_grid_of(input_.kv_grid(), input_.tile()); }

  void make_folder() const {
    std::error_code error;
    fs::create_directories(command_.png, error);
    if (!fs::is_directory(command_.png)) {
      throw Failure(ExitCode::kInputOutput, fmt::format("--png {}: cannot make the folder: {}",
                                                        command_.png, error.message()));
    }
    check(io::check_writable(fs::path(command_.png) / "head00-scores.png"));
  }

  void inspect_row(const HeadMap& map, int64_t head) {
    const int64_t row = *command_.row;
    const auto first = map.scores.begin() + row * map.num_kv_tiles;
    rows_.push_back({.head = head,
                     .row = row,
                     .kept = map.kept(row),
                     .probabilities = map.probabilities(row),
                     .scores = {first, first + map.num_kv_tiles}});
    if (command_.png.empty()) return;
    const bool same_grid = input_.grid() == input_.kv_grid();
    check(video::write_png(
        fs::path(command_.png) / fmt::format("head{:02}-row{:04}-looks.png", head, row),
        look_map({.tile_grid = kv_tile_grid(),
                  .weights = rows_.back().probabilities,
                  .kept = rows_.back().kept,
                  .query_tile = same_grid ? row : -1})));
  }

  const InspectCommand& command_;
  AttentionInput& input_;
  Context context_;
  SelectOptions select_;
  int64_t first_head_ = 0, end_head_ = 0;
  std::optional<SampledTiles> sample_;
  std::vector<HeadReport> heads_;
  std::vector<RowReport> rows_;
};

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectCommand>();
  CLI::App& command =
      *app.add_subcommand("inspect", "what is selected, and how much of dense attention it holds");
  options->tensors.add_to(command);
  options->keep.add_to(command);
  command.add_option("--batch", options->batch, "batch item")->capture_default_str();
  command.add_option("--head", options->head, "only this head; default: all");
  command.add_option("--row", options->row, "list the tiles that this query tile keeps");
  command.add_option("--mass-tiles", options->mass_tiles,
                     "query tiles whose mass is computed; default: all, or fewer if many");
  command.add_option("--png", options->png, "write heat maps into this folder");
  options->backend.add_to(command);
  add_json_option(command, options->json);
  command.callback([options] {
    const Context context = options->backend.context();
    AttentionInput input(options->tensors);
    const InterruptScope interrupt;
    Inspection inspection(*options, input, context);
    inspection.run(interrupt);
    options->json ? print_json(inspection.json()) : print_result(inspection.text());
  });
}

}  // namespace vsa::cli
