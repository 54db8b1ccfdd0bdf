// `vsa inspect`: what the coarse stage selects, and how much of dense attention that holds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/interrupt.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/tensor_file.h"
#include "cli/inspect/heat_map.h"
#include "cli/inspect/report.h"
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

int64_t in_range(const char* option, int64_t value, int64_t count) {
  if (value < 0 || value >= count) {
    fail_usage(fmt::format("{}: expected 0 to {}, got {}", option, count - 1, value));
  }
  return value;
}

/// In tiles; along a curve these are one line.
Grid tile_grid_of(const AttentionInput& input) {
  if (input.tiling().order != TokenOrder::kRaster) return {1, 1, input.kv_plan().num_tiles()};
  const Grid grid = input.kv_grid();
  const TileShape& tile = input.tiling().tile;
  return {.f = (grid.f + tile.f - 1) / tile.f,
          .h = (grid.h + tile.h - 1) / tile.h,
          .w = (grid.w + tile.w - 1) / tile.w};
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
  HeatMap picture{.title = fmt::format("head {}: coarse scores", head),
                  .values = map.scores,
                  .rows = map.num_q_tiles,
                  .columns = map.num_kv_tiles,
                  .scale = scale_of(map.scores)};
  check(video::write_png(folder / fmt::format("head{:02}-scores.png", head), heat_map(picture)));
  std::vector<float> kept(map.scores.size(), 0.0F);
  for (int64_t r = 0; r < map.num_q_tiles; ++r) {
    for (const int32_t t : map.kept(r)) kept[static_cast<size_t>(r * map.num_kv_tiles + t)] = 1.0F;
  }
  picture.title = fmt::format("head {}: kept tiles", head);
  picture.values = kept;
  picture.scale = {.least = 0.0, .most = 1.0, .least_label = "dropped", .most_label = "kept"};
  check(video::write_png(folder / fmt::format("head{:02}-kept.png", head), heat_map(picture)));
}

/// The whole command, over the heads asked for.
class Inspection {
 public:
  Inspection(const InspectCommand& command, AttentionInput& input, const Context& context)
      : command_(command), input_(input), context_(context) {
    select_.topk = command.keep.topk_of(input.kv_plan().num_tiles());
    in_range("--batch-item", command.batch, input.batch());
    if (command.head) in_range("--head", *command.head, input.num_heads());
    if (command.row) in_range("--row", *command.row, input.q_plan().num_tiles());
    first_head_ = command.head.value_or(0);
    end_head_ = command.head ? first_head_ + 1 : input.num_heads();
    sample_ = sample_tiles(input.q_plan(), command.mass_tiles.value_or(affordable_mass_tiles(
                                               input, end_head_ - first_head_)));
    report_ = {.num_q_tiles = input.q_plan().num_tiles(),
               .num_kv_tiles = input.kv_plan().num_tiles(),
               .topk = select_.topk,
               .mass_tiles = std::ssize(sample_->tiles),
               .kv_tile_grid = tile_grid_of(input),
               .heads = {},
               .rows = {},
               .png = command.png};
  }

  const InspectReport& run(const InterruptScope& interrupt) {
    if (!command_.png.empty()) make_folder();
    ProgressBar bar;
    for (int64_t head = first_head_; head < end_head_; ++head) {
      bar.update("inspect", head - first_head_, end_head_ - first_head_);
      interrupt.check();
      const HeadMap map =
          map_head(context_, input_, command_.batch, head, select_, command_.tensors.scale);
      report_.heads.push_back({.head = head,
                               .kept_share = map.kept_share(),
                               .mass = captured_mass(context_, input_, command_.batch, head, map,
                                                     *sample_, command_.tensors.scale)});
      if (!command_.png.empty()) save_maps(command_.png, map, head);
      if (command_.row) inspect_row(map, head);
    }
    return report_;
  }

 private:
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
    report_.rows.push_back({.head = head,
                            .row = row,
                            .kept = map.kept(row),
                            .probabilities = map.probabilities(row),
                            .scores = {first, first + map.num_kv_tiles}});
    if (command_.png.empty()) return;
    const bool same_grid = input_.grid() == input_.kv_grid();
    check(video::write_png(
        fs::path(command_.png) / fmt::format("head{:02}-row{:04}-looks.png", head, row),
        look_map({.title = fmt::format("head {}, query tile {}: coarse probability", head, row),
                  .tile_grid = report_.kv_tile_grid,
                  .weights = report_.rows.back().probabilities,
                  .kept = report_.rows.back().kept,
                  .query_tile = same_grid ? row : -1})));
  }

  const InspectCommand& command_;
  AttentionInput& input_;
  Context context_;
  SelectOptions select_;
  int64_t first_head_ = 0, end_head_ = 0;
  std::optional<SampledTiles> sample_;
  InspectReport report_;
};

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectCommand>();
  CLI::App& command = *app.add_subcommand(
      "inspect", "show what is selected, and how much of dense attention it holds");
  options->tensors.add_to(command);
  options->keep.add_to(command);
  add_whole(command, "--batch-item", options->batch, {}, "which item of the batch");
  add_former_name(command, "--batch", "--batch-item N is the item to look at");
  add_whole(command, "--head", options->head, {}, "only this head; default: all");
  add_whole(command, "--row", options->row, {}, "list the tiles that this query tile keeps");
  add_whole(command, "--mass-tiles", options->mass_tiles, {.least = 1},
            "query tiles whose mass is computed; default: all, or fewer if there are many");
  add_text(command,
           {.names = "--png", .kind = kFolderKind, .help = "write heat maps into this folder"},
           options->png);
  add_example(command, "vsa inspect in.safetensors --grid 8,16,16 --keep 0.25 --png maps");
  options->backend.add_to(command);
  add_json_option(command, options->json);
  command.callback([options] {
    const Context context = options->backend.context();
    options->backend.warn_of_unused_threads();
    AttentionInput input(options->tensors);
    const InterruptScope interrupt;
    Inspection inspection(*options, input, context);
    const InspectReport& report = inspection.run(interrupt);
    options->json ? print_json(to_json(report)) : print_result(to_text(report));
  });
}

}  // namespace vsa::cli
