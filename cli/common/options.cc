// Options that several subcommands share.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "runtime/system/limits.h"

namespace vsa::cli {
namespace {

constexpr const char* kGridForm = "F,H,W with every number >= 1";

/// An integer that takes all of `text`, in [least, 2^31).
std::optional<int64_t> parse_integer(std::string_view text, int64_t least) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < least || value >= int64_t{1} << 31) return std::nullopt;
  return value;
}

}  // namespace

void add_json_option(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "print the result as JSON on stdout");
}

void BackendOptions::add_to(CLI::App& command) {
  command.add_option("--backend", backend, "reference, cpu, cuda or hip")->capture_default_str();
  command
      .add_option("--threads", threads,
                  "threads to use; 0: as many as there are processors for this process")
      ->capture_default_str();
}

Context BackendOptions::context() const {
  if (threads < 0 || threads > kMaxThreads) {
    fail_usage(fmt::format("--threads: expected 0 to {}, got {}", kMaxThreads, threads));
  }
  const Result<BackendId> id = backend_from_name(backend);
  if (!id.ok()) {
    fail_usage(fmt::format("--backend: expected reference, cpu, cuda or hip, got {}", backend));
  }
  for (const BackendInfo& info : backends()) {
    if (info.id == *id && !info.available) {
      throw Failure(ExitCode::kUnsupported, fmt::format("--backend {}: {}", backend, info.detail),
                    "`vsa --version` lists what this build can run");
    }
  }
  return {.backend = *id, .num_threads = threads > 0 ? threads : system::default_num_threads()};
}

void KeepOptions::add_to(CLI::App& command) {
  command.add_option("--sparsity", sparsity, "share of kv tiles that a query tile drops");
  command.add_option("--topk", topk, "kv tiles that a query tile keeps");
  command.add_option("--keep", keep, "share of kv tiles kept; the same as --sparsity 1-K");
}

int64_t KeepOptions::topk_of(int64_t num_kv_tiles) const {
  if (int{sparsity.has_value()} + int{keep.has_value()} + int{topk.has_value()} != 1) {
    fail_usage("expected exactly one of --sparsity, --topk and --keep",
               "`--sparsity 0.875` keeps one tile in eight");
  }
  if (topk) {
    if (*topk < 1 || *topk > num_kv_tiles) {
      fail_usage(fmt::format("--topk: expected 1 to {} (all tiles), got {}", num_kv_tiles, *topk));
    }
    return *topk;
  }
  if (keep && !(*keep > 0.0 && *keep <= 1.0)) {
    fail_usage(fmt::format("--keep: expected a number in (0, 1], got {}", *keep));
  }
  // Below 0 keeps all, as topk_from_sparsity defines; above 1 can only be meant as a percentage.
  if (sparsity && !(std::isfinite(*sparsity) && *sparsity <= 1.0)) {
    fail_usage(fmt::format("--sparsity: expected a number of at most 1, got {}", *sparsity),
               "`--sparsity 0.875` keeps one tile in eight");
  }
  return take(topk_from_sparsity(sparsity ? *sparsity : 1.0 - *keep, num_kv_tiles));
}

std::vector<int64_t> parse_integers(const std::string& option, const std::string& text,
                                    size_t count, int64_t least, const std::string& expected) {
  std::vector<int64_t> values;
  size_t start = 0;
  while (true) {
    const size_t end = std::min(text.find_first_of(",x*", start), text.size());
    const auto value = parse_integer(std::string_view(text).substr(start, end - start), least);
    if (!value) break;
    values.push_back(*value);
    if (end == text.size()) {
      if (count != 0 && values.size() != count) break;
      return values;
    }
    start = end + 1;
  }
  fail_usage(fmt::format("{}: expected {}, got {}", option, expected, text));
}

DType parse_dtype(const std::string& option, const std::string& text) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    if (text == name(dtype)) return dtype;
  }
  fail_usage(fmt::format("{}: expected f32, bf16, f16 or f64, got {}", option, text));
}

Grid parse_grid(const std::string& option, const std::string& text) {
  const auto n = parse_integers(option, text, 3, 1, kGridForm);
  return {.f = n[0], .h = n[1], .w = n[2]};
}

TileShape parse_tile(const std::string& option, const std::string& text) {
  const auto n = parse_integers(option, text, 3, 1, kGridForm);
  const TileShape tile{.f = n[0], .h = n[1], .w = n[2]};
  // Extents below 2^31 cannot overflow the first product; the second is safe once the first is in
  // range.
  if (tile.f * tile.h > kMaxTileTokens || tile.num_tokens() > kMaxTileTokens) {
    fail_usage(fmt::format("{}: expected at most {} tokens in a tile, got {}", option,
                           kMaxTileTokens, text));
  }
  return tile;
}

}  // namespace vsa::cli
