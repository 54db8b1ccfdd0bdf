// The subcommands, and the options that several of them share. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <limits>
#include <optional>
#include <string>

#include "cli/common/option.h"
#include "vsa/backend.h"

namespace vsa::cli {

/// Each adds one subcommand, whose callback runs it. Callbacks throw Failure, never exit.
void add_plan(CLI::App& app);
void add_attend(CLI::App& app);
void add_inspect(CLI::App& app);
void add_bench(CLI::App& app);
void add_generate(CLI::App& app);
void add_decode(CLI::App& app);
void add_verify(CLI::App& app);

/// A command line that shows how a subcommand is used: in its help, and where something is missing.
void add_example(CLI::App& command, const std::string& example);

/// --json: results as JSON.
void add_json_option(CLI::App& command, bool& json);

/// --backend, --device and --threads.
struct BackendOptions {
  std::string backend = "cpu";
  std::optional<int> device;
  int threads = 0;

  void add_to(CLI::App& command);
  /// Makes the device current on this thread. Throws Failure(kUnsupported) for a backend that is
  /// absent here, and Failure(kUsage) for a device that it does not have.
  Context context() const;
  /// For commands that run on several threads only where the backend does.
  void warn_of_unused_threads() const;
};

inline constexpr NumberRange kSparsityRange{.least = 0.0, .most = 1.0};
inline constexpr NumberRange kKeepRange{.least = std::numeric_limits<double>::denorm_min(),
                                        .most = 1.0,
                                        .description = "a number above 0 and at most 1"};

/// --sparsity, --topk and --keep: how many kv tiles a query tile keeps.
struct KeepOptions {
  std::optional<double> sparsity;
  std::optional<double> keep;
  std::optional<int64_t> topk;

  void add_to(CLI::App& command);
  bool given() const { return sparsity || keep || topk; }
  /// Throws Failure(kUsage) if more than one is given.
  void check_at_most_one() const;
  /// --sparsity, or what --keep makes of it.
  std::optional<double> as_sparsity() const;
  /// Throws Failure(kUsage) unless exactly one is given and in range.
  int64_t topk_of(int64_t num_kv_tiles) const;
};

}  // namespace vsa::cli
