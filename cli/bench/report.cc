// The lines of JSON and the table that `vsa bench` prints. Host-only.
#include "cli/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common/build_info.h"
#include "cli/common/table.h"

namespace vsa::cli {
namespace {

/// The measurements of `stage`; null if there are none.
const Measured* find(const std::vector<Measured>& all, const std::string& stage) {
  const auto it = std::ranges::find(
      all, stage, [](const Measured& x) -> const std::string& { return x.contestant.stage; });
  return it == all.end() || !it->ran() ? nullptr : &*it;
}

std::optional<double> ratio(const Measured* over, const Measured* under) {
  if (over == nullptr || under == nullptr) return std::nullopt;
  return over->median() / under->median();
}

/// How many times faster the operator is than dense attention, forward and backward together.
std::optional<double> training_speedup(const std::vector<Measured>& all) {
  const Measured* stages[] = {find(all, "dense"), find(all, "dense_backward"),
                              find(all, "attention"), find(all, "attention_backward")};
  if (std::ranges::find(stages, nullptr) != std::end(stages)) return std::nullopt;
  return (stages[0]->median() + stages[1]->median()) / (stages[2]->median() + stages[3]->median());
}

void add_measurements(nlohmann::ordered_json& line, const std::vector<Measured>& all,
                      const Measured& x) {
  line["repeats"] = x.ms.size();
  line["median_ms"] = x.median();
  line["iqr_ms"] = iqr(x.ms);
  line["min_ms"] = quantile(x.ms, 0.0);
  if (x.contestant.flops > 0.0) line["tflops"] = x.gflops() * 1e-3;
  if (x.contestant.bytes > 0.0) {
    line["bytes"] = static_cast<int64_t>(x.contestant.bytes);
    line["gb_per_s"] = x.gigabytes_per_second();
  }
  if (x.extra_bytes) line["extra_bytes"] = *x.extra_bytes;
  if (const auto speedup = ratio(find(all, x.contestant.baseline), &x)) {
    line["speedup_vs_dense"] = *speedup;
  }
  if (const Measured* gemm = find(all, "gemm"); gemm != nullptr && x.contestant.flops > 0.0) {
    line["share_of_gemm"] = x.gflops() / gemm->gflops();
  }
  if (x.contestant.stage == "attention_backward") {
    if (const auto speedup = training_speedup(all)) line["speedup_forward_backward"] = *speedup;
  }
  if (x.check) {
    line["check"] = {{"error", x.check->error},
                     {"tolerance", x.check->tolerance},
                     {"tiles_checked", x.check->tiles_checked}};
  }
}

std::vector<std::string> cells_of(const std::vector<Measured>& all, const Measured& x) {
  if (!x.ran()) return {x.contestant.stage, "unsupported", "", "", "", "", "", "", ""};
  const Measured* gemm = find(all, "gemm");
  const bool flops = x.contestant.flops > 0.0;
  const auto speedup = ratio(find(all, x.contestant.baseline), &x);
  return {x.contestant.stage,
          fmt::format("{:.3f}", x.median()),
          fmt::format("{:.3f}", iqr(x.ms)),
          flops ? fmt::format("{:.1f}", x.gflops()) : "",
          flops && gemm ? fmt::format("{:.2f}", x.gflops() / gemm->gflops()) : "",
          x.contestant.bytes > 0.0 ? fmt::format("{:.2f}", x.gigabytes_per_second()) : "",
          speedup ? fmt::format("{:.2f}x", *speedup) : "",
          x.extra_bytes ? fmt::format("{:.1f}", static_cast<double>(*x.extra_bytes) / 0x1p20) : "",
          x.check ? fmt::format("{:.1e}", x.check->error) : ""};
}

/// The reasons why stages are unsupported: a line for each, with the stages that share it.
std::string refusals_of(const std::vector<Measured>& all) {
  std::vector<std::string> told;
  std::string text;
  for (const Measured& x : all) {
    const std::string& why = x.contestant.refusal;
    if (x.ran() || std::ranges::find(told, why) != told.end()) continue;
    told.push_back(why);
    std::vector<std::string> stages;
    for (const Measured& y : all) {
      if (y.contestant.refusal == why) stages.push_back(y.contestant.stage);
    }
    text += fmt::format("unsupported ({}): {}\n", fmt::join(stages, ", "), why);
  }
  return text;
}

/// "tile 4x4x4", or of a curve "tiles of 64 tokens in the order gilbert".
std::string tiles_of(const BenchCase& c) {
  const TileShape& tile = c.tiling.tile;
  std::string text = fmt::format("tile {}x{}x{}", tile.f, tile.h, tile.w);
  if (c.tiling.order != TokenOrder::kRaster) {
    text =
        fmt::format("tiles of {} tokens in the order {}", tile.num_tokens(), name(c.tiling.order));
  }
  return text + (c.in_compact_order ? ", tensors in tile order" : "");
}

}  // namespace

nlohmann::ordered_json bench_json(const BenchProblem& p, const Machine& machine,
                                  const std::vector<Measured>& all, const Measured& x) {
  const BenchCase& c = p.c;
  nlohmann::ordered_json line = {
      {"case", c.name},
      {"stage", x.contestant.stage},
      {"grid", {c.grid.f, c.grid.h, c.grid.w}},
      {"order", name(c.tiling.order)},
      {"tensors_in_tile_order", c.in_compact_order},
      {"tile_shape", {c.tiling.tile.f, c.tiling.tile.h, c.tiling.tile.w}},
      {"num_heads", c.num_heads},
      {"num_kv_heads", c.num_kv_heads},
      {"head_dim", c.head_dim},
      {"num_tiles", p.plan.num_tiles()},
      {"topk", c.topk},
      {"dtype", name(c.dtype)},
  };
  if (x.ran()) {
    add_measurements(line, all, x);
  } else {
    line["unsupported"] = x.contestant.refusal;
  }
  line["backend"] = machine.backend;
  line["backend_detail"] = machine.detail;
  line["cpu"] = machine.cpu;
  line["threads"] = machine.threads;
  if (!machine.gpu.is_null()) line["gpu"] = machine.gpu;
  line["compiler"] = compiler();
  line["commit"] = commit();
  return line;
}

std::string bench_text(const BenchProblem& p, const Machine& machine,
                       const std::vector<Measured>& all) {
  const BenchCase& c = p.c;
  std::string text = fmt::format(
      "{}: grid {}x{}x{}, {}, {} heads, {} kv heads, head_dim {}, {}, {} of {} tiles "
      "kept\n{} ({}), {} threads, {}\n",
      c.name, c.grid.f, c.grid.h, c.grid.w, tiles_of(c), c.num_heads, c.num_kv_heads, c.head_dim,
      name(c.dtype), c.topk, p.plan.num_tiles(), machine.backend, machine.detail, machine.threads,
      machine.cpu);
  Table table({"stage", "median ms", "IQR ms", "GFLOP/s", "of GEMM", "GB/s", "vs dense",
               "extra MiB", "error"});
  for (const Measured& x : all) table.add(cells_of(all, x));
  text += table.to_string() + refusals_of(all);
  if (const auto speedup = training_speedup(all)) {
    text += fmt::format("forward and backward together: {:.2f}x vs dense\n", *speedup);
  }
  if (!machine.gpu.is_null()) text += fmt::format("GPU: {}\n", machine.gpu.dump());
  return text + "\n";
}

}  // namespace vsa::cli
