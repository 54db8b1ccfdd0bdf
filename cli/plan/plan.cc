// `vsa plan`: how a grid is cut into tiles, and what sparse attention on it costs. Reads no data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/common/cost.h"
#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/common/run_options.h"
#include "cli/common/table.h"
#include "cli/plan/model_plan.h"

namespace vsa::cli {
namespace {

struct PlanOptions {
  std::optional<Grid> grid;
  RunOptions run;  ///< of a model; without one, its tile and what is kept are those of the grid
  AttentionDims dims{.num_kv_heads = 0};
  std::string dtype = "bf16";
  bool json = false;
};

/// Everything the command reports.
struct PlanFacts {
  Grid grid;
  Tiling tiling;
  Grid tile_grid;  // in tiles; along a curve 1, 1 and their number
  int64_t num_tokens = 0, num_tiles = 0, num_partial_tiles = 0, padded_tokens = 0, topk = 0;
  std::map<int64_t, int64_t> tile_lens;  // valid tokens -> tiles
  AttentionDims dims;
  DType dtype = DType::kBF16;
  double dense_flops = 0, coarse_flops = 0;
  PairRange fine_flops;
  double token_tensor_bytes = 0, kv_tensor_bytes = 0, pooled_bytes = 0, scores_bytes = 0,
         lut_bytes = 0;

  bool has_cuboids() const { return tiling.order == TokenOrder::kRaster; }
  double kept_share() const { return static_cast<double>(topk) / static_cast<double>(num_tiles); }
  /// How many times fewer FLOPs than dense, selection included.
  double reduction() const { return dense_flops / (fine_flops.expected + coarse_flops); }
};

AttentionDims checked_dims(const AttentionDims& given) {
  AttentionDims dims = given;
  if (dims.num_kv_heads == 0) dims.num_kv_heads = dims.num_heads;
  if (dims.num_heads % dims.num_kv_heads != 0) {
    fail_usage(fmt::format("--kv-heads: expected a divisor of --heads {}, got {}", dims.num_heads,
                           dims.num_kv_heads));
  }
  return dims;
}

PlanFacts facts_of(const PlanOptions& options) {
  PlanFacts facts;
  facts.grid = *options.grid;
  facts.tiling = options.run.tiling.on(facts.grid);
  const TileShape& tile = facts.tiling.tile;
  facts.dims = checked_dims(options.dims);
  facts.dtype = parse_dtype("--dtype", options.dtype);
  const TilePlan plan = take(TilePlan::grid(facts.grid, facts.tiling));
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  facts.tile_grid = {.f = 1, .h = 1, .w = plan.num_tiles()};
  if (facts.has_cuboids()) {
    facts.tile_grid = {.f = ceil_div(facts.grid.f, tile.f),
                       .h = ceil_div(facts.grid.h, tile.h),
                       .w = ceil_div(facts.grid.w, tile.w)};
  }
  facts.num_tokens = plan.num_valid_tokens();
  facts.num_tiles = plan.num_tiles();
  facts.padded_tokens = plan.padded_len();
  for (int64_t t = 0; t < plan.num_tiles(); ++t) ++facts.tile_lens[plan.tile_len(t)];
  const auto full = facts.tile_lens.find(tile.num_tokens());
  facts.num_partial_tiles = facts.num_tiles - (full == facts.tile_lens.end() ? 0 : full->second);
  facts.topk = options.run.video.keep.topk_of(facts.num_tiles);

  const auto heads = static_cast<double>(facts.dims.batch * facts.dims.num_heads);
  const auto kv_heads = static_cast<double>(facts.dims.batch * facts.dims.num_kv_heads);
  const auto dim = static_cast<double>(facts.dims.head_dim);
  const auto tokens = static_cast<double>(facts.num_tokens);
  const auto tiles = static_cast<double>(facts.num_tiles);
  const PairRange pairs = kept_pairs(plan, plan, facts.topk);
  const auto flops = [&](double n) { return heads * pair_flops(n, facts.dims.head_dim); };
  facts.dense_flops = flops(tokens * tokens);
  facts.coarse_flops = flops(tiles * tiles);
  facts.fine_flops = {
      .least = flops(pairs.least), .expected = flops(pairs.expected), .most = flops(pairs.most)};
  const auto element = static_cast<double>(size_bytes(facts.dtype));
  facts.token_tensor_bytes = heads * tokens * dim * element;
  facts.kv_tensor_bytes = kv_heads * tokens * dim * element;
  facts.pooled_bytes = (heads + 2.0 * kv_heads) * tiles * dim * 4.0;
  facts.scores_bytes = heads * tiles * tiles * 4.0;
  facts.lut_bytes = heads * tiles * static_cast<double>(facts.topk + 1) * 4.0;
  return facts;
}

nlohmann::ordered_json to_json(const PlanFacts& f) {
  nlohmann::ordered_json lens = nlohmann::ordered_json::array();
  for (const auto& [len, count] : f.tile_lens) lens.push_back({{"tokens", len}, {"tiles", count}});
  return {
      {"grid", {f.grid.f, f.grid.h, f.grid.w}},
      {"order", name(f.tiling.order)},
      {"tile_shape", {f.tiling.tile.f, f.tiling.tile.h, f.tiling.tile.w}},
      {"tile_grid", {f.tile_grid.f, f.tile_grid.h, f.tile_grid.w}},
      {"num_tokens", f.num_tokens},
      {"num_tiles", f.num_tiles},
      {"num_partial_tiles", f.num_partial_tiles},
      {"tile_lens", lens},
      {"padded_tokens", f.padded_tokens},
      {"padding_tokens", f.padded_tokens - f.num_tokens},
      {"topk", f.topk},
      {"kept_share", f.kept_share()},
      {"sparsity", 1.0 - f.kept_share()},
      {"batch", f.dims.batch},
      {"num_heads", f.dims.num_heads},
      {"num_kv_heads", f.dims.num_kv_heads},
      {"head_dim", f.dims.head_dim},
      {"dtype", name(f.dtype)},
      {"flops",
       {{"dense", f.dense_flops},
        {"coarse", f.coarse_flops},
        {"fine_least", f.fine_flops.least},
        {"fine_expected", f.fine_flops.expected},
        {"fine_most", f.fine_flops.most},
        {"reduction", f.reduction()}}},
      {"bytes",
       {{"q", f.token_tensor_bytes},
        {"k", f.kv_tensor_bytes},
        {"v", f.kv_tensor_bytes},
        {"out", f.token_tensor_bytes},
        {"pooled", f.pooled_bytes},
        {"coarse_scores", f.scores_bytes},
        {"lut", f.lut_bytes}}},
  };
}

std::string to_text(const PlanFacts& f) {
  std::string lens;
  for (auto it = f.tile_lens.rbegin(); it != f.tile_lens.rend(); ++it) {
    lens += fmt::format("{}{} x {}", lens.empty() ? "" : ", ", it->second, it->first);
  }
  const bool exact = f.num_partial_tiles == 0 || f.topk == f.num_tiles;
  std::string text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<16}{}\n", what, value);
  };
  line("grid", fmt::format("{} x {} x {} = {} tokens", f.grid.f, f.grid.h, f.grid.w, f.num_tokens));
  const TileShape& tile = f.tiling.tile;
  if (f.has_cuboids()) {
    line("tile",
         fmt::format("{} x {} x {} = {} tokens", tile.f, tile.h, tile.w, tile.num_tokens()));
    line("tiles", fmt::format("{} x {} x {} = {}, {} of them partial", f.tile_grid.f, f.tile_grid.h,
                              f.tile_grid.w, f.num_tiles, f.num_partial_tiles));
  } else {
    line("tile", fmt::format("{} tokens in the order {}", tile.num_tokens(), name(f.tiling.order)));
    line("tiles", fmt::format("{}, {} of them partial", f.num_tiles, f.num_partial_tiles));
  }
  line("tile lengths", lens + " tokens (tiles x valid tokens)");
  line("padding", fmt::format("{} slots in tile order, {} of them padding ({:.1f} %)",
                              f.padded_tokens, f.padded_tokens - f.num_tokens,
                              100.0 * static_cast<double>(f.padded_tokens - f.num_tokens) /
                                  static_cast<double>(f.padded_tokens)));
  line("topk",
       fmt::format("{} of {} tiles, {:.2f} % kept", f.topk, f.num_tiles, 100.0 * f.kept_share()));
  line("attention",
       fmt::format("batch {}, {} heads, {} kv heads, head_dim {}, {}", f.dims.batch,
                   f.dims.num_heads, f.dims.num_kv_heads, f.dims.head_dim, name(f.dtype)));
  line("dense", format_flops(f.dense_flops));
  line("coarse", format_flops(f.coarse_flops));
  line("fine",
       exact ? fmt::format("{} (exact)", format_flops(f.fine_flops.expected))
             : fmt::format("{} expected, {} to {} depending on which tiles are kept",
                           format_flops(f.fine_flops.expected), format_flops(f.fine_flops.least),
                           format_flops(f.fine_flops.most)));
  line("reduction", fmt::format("{:.2f} times fewer FLOPs than dense", f.reduction()));
  line("q and out", format_bytes(f.token_tensor_bytes) + " each");
  line("k and v", format_bytes(f.kv_tensor_bytes) + " each");
  line("pooled", format_bytes(f.pooled_bytes) + " q, k and v, f32");
  line("coarse scores", format_bytes(f.scores_bytes) + " if all rows are held at once");
  line("lut", format_bytes(f.lut_bytes) + " indices and counts");
  return text;
}

void plan_grid(const PlanOptions& options) {
  if (!options.grid) {
    fail_usage("expected --grid or --model, got none",
               "for example `vsa plan --grid 21,30,52 --sparsity 0.875 --heads 12`");
  }
  const PlanFacts facts = facts_of(options);
  options.json ? print_json(to_json(facts)) : print_result(to_text(facts));
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App& command = *app.add_subcommand(
      "plan", "show how a video is cut into tiles, and what sparse attention on it costs");
  // 2^20 keeps every product in range; no model comes near it.
  constexpr WholeRange kCount{.least = 1, .most = 1 << 20};
  add_grid(command, "--grid", options->grid, "size of the video in tokens: frames, rows, columns");
  options->run.add_attention_to(command, "4,4,4");
  add_whole(command, "--batch-size", options->dims.batch, kCount, "videos in one call");
  add_former_name(command, "--batch", "--batch-size N is the number of videos in one call");
  add_whole(command, "--heads", options->dims.num_heads, kCount, "query heads");
  add_whole(command, "--kv-heads", options->dims.num_kv_heads, {.least = 0, .most = kCount.most},
            "key and value heads; 0: as --heads");
  add_whole(command, "--head-dim", options->dims.head_dim, kCount, "width of a head");
  add_choice(command,
             {.names = "--dtype",
              .kind = {},
              .help = "dtype of q, k and v",
              .default_value = options->dtype},
             {"f32", "bf16", "f16", "f64"}, options->dtype);
  options->run.add_model_to(command);
  options->run.add_video_to(command);
  add_example(command, "vsa plan --grid 21,30,52 --sparsity 0.875 --heads 12");
  add_json_option(command, options->json);
  command.callback([options, &command] {
    // A model determines the options of a grid, and a grid has no use for those of a model.
    if (options->run.model.empty()) {
      refuse_options(command, "without --model",
                     {"--variant", "--transformer", "--vae", "--text-encoder", "--steps",
                      "--frames", "--size", "--guidance", "--scheduler", "--shift", "--attention",
                      "--dense-steps", "--dense-layers"});
      plan_grid(*options);
    } else {
      refuse_options(command, "beside --model, which says it",
                     {"--grid", "--batch-size", "--heads", "--kv-heads", "--head-dim", "--dtype"});
      plan_model(options->run, options->json);
    }
  });
}

}  // namespace vsa::cli
