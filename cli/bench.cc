// `vsa bench`: how fast the stages and the operator are, against dense attention and a GEMM in the
// same run.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/bench_contestant.h"
#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace vsa::cli {
namespace {

struct BenchCommand {
  std::string cases = "bench/cases";
  std::vector<std::string> names, stages;
  int64_t repeats = 20;
  BackendOptions backend;
  bool list = false, json = false;
};

/// The measurements of one contestant.
struct Measured {
  Contestant contestant;
  std::optional<CheckResult> check;
  int64_t inner = 1;  // calls a sample is the mean of
  std::vector<double> ms;

  double quantile(double share) const {
    std::vector<double> sorted = ms;
    std::ranges::sort(sorted);
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<size_t>(at);
    const size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
  }
  double median() const { return quantile(0.5); }
  double gflops() const { return contestant.flops / median() * 1e-6; }
  double gigabytes_per_second() const { return contestant.bytes / median() * 1e-6; }
};

double time_ms(const std::function<Status()>& run, int64_t times) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < times; ++i) check(run());
  const auto passed = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::milli>(passed).count() / static_cast<double>(times);
}

/// Runs each contestant once and compares what it wrote with the reference: nothing wrong is timed.
void check_all(const BenchCase& c, std::vector<Measured>& all, ProgressBar& bar,
               const InterruptScope& interrupt) {
  for (size_t i = 0; i < all.size(); ++i) {
    bar.update(c.name + " check", static_cast<int64_t>(i), std::ssize(all));
    interrupt.check();
    Contestant& x = all[i].contestant;
    const double first_ms = time_ms(x.run, 1);
    // A sample lasts at least 1 ms, a thousand times what reading the clock costs.
    all[i].inner = std::max<int64_t>(1, static_cast<int64_t>(1.0 / first_ms));
    if (!x.check) continue;
    all[i].check = x.check();
    if (!all[i].check->ok()) {
      throw Failure(ExitCode::kFailed,
                    fmt::format("{} {}: wrong result: expected a relative error of at most {:.2g}, "
                                "got {:.2g}; not timed",
                                c.name, x.stage, all[i].check->tolerance, all[i].check->error));
    }
  }
}

/// Contestants take turns, so that all see the same load of the machine; the first round warms up.
void time_all(const BenchCase& c, int64_t repeats, std::vector<Measured>& all, ProgressBar& bar,
              const InterruptScope& interrupt) {
  for (int64_t round = 0; round <= repeats; ++round) {
    for (Measured& x : all) {
      bar.update(c.name, round, repeats + 1, x.contestant.stage);
      interrupt.check();
      const double ms = time_ms(x.contestant.run, x.inner);
      if (round > 0) x.ms.push_back(ms);
    }
  }
}

const Measured* find(const std::vector<Measured>& all, const std::string& stage) {
  const auto it = std::ranges::find(
      all, stage, [](const Measured& x) -> const std::string& { return x.contestant.stage; });
  return it == all.end() ? nullptr : &*it;
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

/// What all lines of one run share.
struct Machine {
  std::string backend, detail, cpu;
  int threads = 0;
};

Machine machine_of(const BenchCommand& command, const Context& context) {
  Machine machine{.backend = command.backend.backend,
                  .detail = "",
                  .cpu = cpu_name(),
                  .threads = omp_get_max_threads()};
  for (const BackendInfo& info : backends()) {
    if (info.id == context.backend) machine.detail = info.detail;
  }
  return machine;
}

nlohmann::ordered_json to_json(const BenchCase& c, const BenchProblem& p, const Machine& machine,
                               const std::vector<Measured>& all, const Measured& x) {
  nlohmann::ordered_json line = {
      {"case", c.name},
      {"stage", x.contestant.stage},
      {"grid", {c.grid.f, c.grid.h, c.grid.w}},
      {"tile_shape", {c.tile.f, c.tile.h, c.tile.w}},
      {"num_heads", c.num_heads},
      {"num_kv_heads", c.num_kv_heads},
      {"head_dim", c.head_dim},
      {"num_tiles", p.plan.num_tiles()},
      {"topk", c.topk},
      {"dtype", name(c.dtype)},
      {"repeats", x.ms.size()},
      {"median_ms", x.median()},
      {"iqr_ms", x.quantile(0.75) - x.quantile(0.25)},
      {"min_ms", x.quantile(0.0)},
  };
  if (x.contestant.flops > 0.0) line["tflops"] = x.gflops() * 1e-3;
  if (x.contestant.bytes > 0.0) line["gb_per_s"] = x.gigabytes_per_second();
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
  line["backend"] = machine.backend;
  line["backend_detail"] = machine.detail;
  line["cpu"] = machine.cpu;
  line["threads"] = machine.threads;
  line["compiler"] = compiler();
  line["commit"] = commit();
  return line;
}

std::string to_text(const BenchCase& c, const BenchProblem& p, const Machine& machine,
                    const std::vector<Measured>& all) {
  std::string text = fmt::format(
      "{}: grid {}x{}x{}, tile {}x{}x{}, {} heads, {} kv heads, head_dim {}, {}, {} of {} tiles "
      "kept\n{} ({}), {} threads, {}\n",
      c.name, c.grid.f, c.grid.h, c.grid.w, c.tile.f, c.tile.h, c.tile.w, c.num_heads,
      c.num_kv_heads, c.head_dim, name(c.dtype), c.topk, p.plan.num_tiles(), machine.backend,
      machine.detail, machine.threads, machine.cpu);
  Table table({"stage", "median ms", "IQR ms", "GFLOP/s", "of GEMM", "GB/s", "vs dense", "error"});
  const Measured* gemm = find(all, "gemm");
  for (const Measured& x : all) {
    const bool flops = x.contestant.flops > 0.0;
    const auto speedup = ratio(find(all, x.contestant.baseline), &x);
    table.add({x.contestant.stage, fmt::format("{:.3f}", x.median()),
               fmt::format("{:.3f}", x.quantile(0.75) - x.quantile(0.25)),
               flops ? fmt::format("{:.1f}", x.gflops()) : "",
               flops && gemm ? fmt::format("{:.2f}", x.gflops() / gemm->gflops()) : "",
               x.contestant.bytes > 0.0 ? fmt::format("{:.2f}", x.gigabytes_per_second()) : "",
               speedup ? fmt::format("{:.2f}x", *speedup) : "",
               x.check ? fmt::format("{:.1e}", x.check->error) : ""});
  }
  text += table.to_string();
  if (const auto speedup = training_speedup(all)) {
    text += fmt::format("forward and backward together: {:.2f}x vs dense\n", *speedup);
  }
  return text + "\n";
}

void run_case(const BenchCommand& command, const BenchCase& c, const Context& context,
              GemmBase& gemm, const InterruptScope& interrupt) {
  ProgressBar bar;
  BenchProblem problem(c);
  check(problem.prepare(context));
  std::vector<Measured> all;
  for (Contestant& x : contestants(problem, gemm, context, command.stages)) {
    all.push_back({.contestant = std::move(x), .check = {}, .inner = 1, .ms = {}});
  }
  check_all(c, all, bar, interrupt);
  time_all(c, command.repeats, all, bar, interrupt);
  bar.clear();
  const Machine machine = machine_of(command, context);
  if (!command.json) {
    print_result(to_text(c, problem, machine, all));
    return;
  }
  for (const Measured& x : all) print_json_line(to_json(c, problem, machine, all, x));
}

/// The cases asked for, in the order of the files.
std::vector<BenchCase> chosen_cases(const BenchCommand& command) {
  std::vector<BenchCase> cases = read_bench_cases(command.cases);
  for (const std::string& wanted : command.names) {
    if (std::ranges::find(cases, wanted, &BenchCase::name) == cases.end()) {
      fail_usage(fmt::format("--case: no case {} in {}", wanted, command.cases),
                 "vsa bench --list names them");
    }
  }
  if (!command.names.empty()) {
    std::erase_if(cases, [&](const BenchCase& c) {
      return std::ranges::find(command.names, c.name) == command.names.end();
    });
  }
  return cases;
}

void print_cases(const std::vector<BenchCase>& cases, bool json) {
  for (const BenchCase& c : cases) {
    if (json) {
      print_json_line({{"case", c.name}, {"grid", {c.grid.f, c.grid.h, c.grid.w}}});
    } else {
      print_result(c.name + "\n");
    }
  }
}

void run(const BenchCommand& command) {
  const std::vector<std::string> stages = bench_stages();
  for (const std::string& wanted : command.stages) {
    if (std::ranges::find(stages, wanted) == stages.end()) {
      fail_usage(
          fmt::format("--stage: expected one of {}, got {}", fmt::join(stages, ", "), wanted));
    }
  }
  if (command.repeats < 1) {
    fail_usage(fmt::format("--repeats: expected at least 1, got {}", command.repeats));
  }
  const Context context = command.backend.context();
  const std::vector<BenchCase> cases = chosen_cases(command);
  if (command.list) {
    print_cases(cases, command.json);
    return;
  }
  if (context.num_threads > 0) omp_set_num_threads(context.num_threads);  // the GEMM, too
  const InterruptScope interrupt;
  GemmBase gemm;
  for (const BenchCase& c : cases) run_case(command, c, context, gemm, interrupt);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App& command = *app.add_subcommand("bench", "speed of the stages and of the operator");
  command.add_option("--cases", options->cases, "file or folder of cases")->capture_default_str();
  command.add_option("--case", options->names, "run these cases only");
  command.add_option("--stage", options->stages, "run these stages only");
  command.add_option("--repeats", options->repeats, "samples of each")->capture_default_str();
  command.add_flag("--list", options->list, "list the cases and end");
  options->backend.add_to(command);
  add_json_option(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
