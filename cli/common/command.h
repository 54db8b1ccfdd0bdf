// The subcommands, and the options that several of them share. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "vsa/backend.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::cli {

/// Each adds one subcommand, whose callback runs it. Callbacks throw Failure, never exit.
void add_plan(CLI::App& app);
void add_attend(CLI::App& app);
void add_inspect(CLI::App& app);
void add_bench(CLI::App& app);
void add_generate(CLI::App& app);
void add_decode(CLI::App& app);
void add_verify(CLI::App& app);

/// --json.
void add_json_option(CLI::App& command, bool& json);

/// --backend and --threads.
struct BackendOptions {
  std::string backend = "cpu";
  int threads = 0;

  void add_to(CLI::App& command);
  /// Throws Failure: kUsage for an unknown name, kUnsupported for a backend that is absent here.
  Context context() const;
};

/// --sparsity, --topk and --keep: how many kv tiles a query tile keeps.
struct KeepOptions {
  std::optional<double> sparsity;
  std::optional<double> keep;
  std::optional<int64_t> topk;

  void add_to(CLI::App& command);
  bool given() const { return sparsity || keep || topk; }
  /// Throws Failure(kUsage) unless exactly one is given and in range.
  int64_t topk_of(int64_t num_kv_tiles) const;
};

/// "21,30,52" (x or * separate as well); throws Failure(kUsage) unless three integers >= 1.
Grid parse_grid(const std::string& option, const std::string& text);
TileShape parse_tile(const std::string& option, const std::string& text);
/// f32, bf16, f16 or f64.
DType parse_dtype(const std::string& option, const std::string& text);
/// Exactly `count` integers (any number if 0) in [least, 2^31).
std::vector<int64_t> parse_integers(const std::string& option, const std::string& text,
                                    size_t count, int64_t least, const std::string& expected);

}  // namespace vsa::cli
