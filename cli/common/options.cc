// Options that several subcommands share.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "runtime/system/limits.h"
#include "vsa/device_memory.h"

namespace vsa::cli {

void add_json_option(CLI::App& command, bool& json) {
  add_flag(command, "--json", json, "print the result as JSON on stdout");
}

void add_example(CLI::App& command, const std::string& example) {
  command.footer("Example:\n  " + example);
}

void BackendOptions::add_to(CLI::App& command) {
  std::vector<std::string> names;
  for (const BackendId id : kBackendIds) names.emplace_back(name(id));
  add_choice(command,
             {.names = "--backend",
              .kind = {},
              .help = "the backend that computes",
              .default_value = backend},
             names, backend);
  add_whole(command, "--device", device, {.least = 0, .most = 1023},
            "number of the backend's device, from 0; default: the first");
  add_whole(
      command, "--threads", threads, {.least = 0, .most = kMaxThreads},
      "threads to compute with; 0: OMP_NUM_THREADS, or as many as this process has processors");
}

Context BackendOptions::context() const {
  const BackendId id = take(backend_from_name(backend));
  for (const BackendInfo& info : backends()) {
    if (info.id == id && !info.available) {
      throw Failure(ExitCode::kUnsupported, fmt::format("--backend {}: {}", backend, info.detail),
                    "`vsa --version` lists what this build can run");
    }
  }
  if (device) {
    const Result<DeviceMemory> memory = DeviceMemory::of(id, *device);
    if (!memory.ok()) fail_usage("--device: " + plain(memory.status().message()));
    check(memory->make_current());
  }
  return {.backend = id, .num_threads = threads > 0 ? threads : system::default_num_threads()};
}

void BackendOptions::warn_of_unused_threads() const {
  if (threads != 0 && !take(backend_traits(take(backend_from_name(backend)))).has_threads) {
    warn(fmt::format("--threads: has no effect with --backend {}", backend));
  }
}

void KeepOptions::add_to(CLI::App& command) {
  add_number(command, "--sparsity", sparsity, kSparsityRange,
             "share of kv tiles that a query tile drops");
  add_whole(command, "--topk", topk, {.least = 1}, "kv tiles that a query tile keeps");
  add_number(command, "--keep", keep, kKeepRange,
             "share of kv tiles kept; the same as --sparsity 1-X");
}

void KeepOptions::check_at_most_one() const {
  if (int{sparsity.has_value()} + int{keep.has_value()} + int{topk.has_value()} > 1) {
    fail_usage("expected at most one of --sparsity, --topk and --keep",
               "`--sparsity 0.875` keeps one tile in eight");
  }
}

std::optional<double> KeepOptions::as_sparsity() const {
  return keep ? std::optional(1.0 - *keep) : sparsity;
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
  return take(topk_from_sparsity(*as_sparsity(), num_kv_tiles));
}

}  // namespace vsa::cli
