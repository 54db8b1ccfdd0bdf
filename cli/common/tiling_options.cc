// Adds --order and --tile, and checks that they fit together. Host-only.
#include "cli/common/tiling_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "cli/common/failure.h"
#include "cli/common/option.h"

namespace vsa::cli {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kAutoOf128 = "auto:128";

bool is_one_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

TileShape tile_of_tokens(int64_t tokens) { return {.f = 1, .h = 1, .w = tokens}; }

}  // namespace

void TilingOptions::add_to(CLI::App& command, const std::string& tile_default) {
  std::vector<std::string> names;
  for (const TokenOrder known : kTokenOrders) names.emplace_back(name(known));
  add_choice(command,
             {.names = "--order",
              .kind = {},
              .help = "the order in which tokens are cut into tiles: cuboids, or runs of a curve",
              .default_value = order},
             names, order);
  add_value(
      command,
      {.names = "--tile",
       .kind = "F,H,W|auto|N",
       .help =
           "edges of a tile in tokens; auto or auto:128: those of at most 64 or 128 tokens that "
           "fit best; along a curve its number of tokens, 64 or 128",
       .default_value = tile_default},
      [this](const std::string& option, const std::string& text) {
        tile.reset();
        best_tile_of.reset();
        curve_tokens.reset();
        if (text == kAuto || text == kAutoOf128) {
          best_tile_of = text == kAuto ? 64 : 128;
        } else if (is_one_number(text)) {
          curve_tokens = parse_whole(option, text, {.least = 1});
        } else {
          tile = parse_tile(option, text);
        }
      });
}

TokenOrder TilingOptions::token_order() const { return take(token_order_from_name(order)); }

void TilingOptions::check() const {
  const bool along_a_curve = token_order() != TokenOrder::kRaster;
  if (!along_a_curve && curve_tokens) {
    fail_usage(
        fmt::format("--tile: expected edges F,H,W or auto in raster order, got {}", *curve_tokens),
        "--order gilbert takes a number of tokens");
  }
  const bool is_known =
      !curve_tokens || *curve_tokens == kCurveTileTokens[0] || *curve_tokens == kCurveTileTokens[1];
  if (along_a_curve && (tile || best_tile_of || !is_known)) {
    fail_usage(fmt::format("--tile: expected 64 or 128 (tokens) with --order {}, got {}", order,
                           tile           ? to_text(*tile)
                           : best_tile_of ? kAuto
                                          : fmt::format("{}", *curve_tokens)));
  }
}

std::optional<TileShape> TilingOptions::edges() const {
  return curve_tokens ? tile_of_tokens(*curve_tokens) : tile;
}

Tiling TilingOptions::on(const Grid& grid) const {
  check();
  const TokenOrder how = token_order();
  if (best_tile_of) return {.order = how, .tile = take(best_tile(grid, *best_tile_of))};
  const TileShape usual = how == TokenOrder::kRaster ? TileShape{} : tile_of_tokens(64);
  return {.order = how, .tile = edges().value_or(usual)};
}

}  // namespace vsa::cli
