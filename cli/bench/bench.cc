// `vsa bench`: how fast the stages and the operator are, against dense attention and a GEMM in the
// same run.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench/gpu_watch.h"
#include "cli/bench/model_pass.h"
#include "cli/bench/report.h"
#include "cli/common/build_info.h"
#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/output.h"

namespace vsa::cli {
namespace {

struct BenchCommand {
  std::string cases = "bench/cases";
  std::vector<std::string> names, stages;
  std::string dtype;  // empty: that of each case
  RunOptions run;     // of a model whose passes are timed instead, if its `model` is not empty
  bool in_tile_order = false;
  int64_t repeats = 20;
  BackendOptions backend;
  bool list = false, json = false;
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

/// The outcome for the contestants of all cases. The GEMM counts only if it is refused, because it
/// is oneDNN's and only there for comparison.
struct Outcome {
  bool any_ran = false;
  std::string refusal;  // the first; empty: none

  void add(const Measured& x) {
    if (!x.ran()) {
      if (refusal.empty()) refusal = x.contestant.refusal;
    } else if (x.contestant.stage != "gemm") {
      any_ran = true;
    }
  }
};

/// By which nvidia-smi knows the GPU that the contestants run on; empty: none.
std::string gpu_of(const std::vector<Measured>& all) {
  for (const Measured& x : all) {
    if (x.contestant.device) return x.contestant.device->system_name();
  }
  return "";
}

void run_case(const BenchCommand& command, const BenchCase& c, const Context& context,
              GemmBase& gemm, const InterruptScope& interrupt, Outcome& outcome) {
  ProgressBar bar;
  BenchProblem problem(c);
  problem.prepare(context, command.stages.empty() ? bench_stages() : command.stages);
  std::vector<Measured> all;
  for (Contestant& x : contestants(problem, gemm, context, command.stages)) {
    all.push_back({.contestant = std::move(x), .check = {}, .ms = {}});
  }
  check_all(c, all, bar, interrupt);
  Machine machine = machine_of(command, context);
  {
    GpuWatch watch(gpu_of(all));
    time_all(c, command.repeats, all, bar, interrupt);
    machine.gpu = watch.seen();
  }
  bar.clear();
  for (const Measured& x : all) outcome.add(x);
  if (!command.json) {
    print_result(bench_text(problem, machine, all));
    return;
  }
  for (const Measured& x : all) print_json_line(bench_json(problem, machine, all, x));
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
  for (BenchCase& c : cases) {
    c.in_compact_order = command.in_tile_order;
    set_order(c, command.run.tiling.token_order());
  }
  if (!command.dtype.empty()) {
    for (BenchCase& c : cases) c.dtype = parse_dtype("--dtype", command.dtype);
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

/// What has no effect on a list of cases.
void warn_of_unused(const BenchCommand& command) {
  const auto unused = [](const char* option, bool given) {
    if (given) warn(fmt::format("{}: has no effect with --list", option));
  };
  unused("--stage", !command.stages.empty());
  unused("--dtype", !command.dtype.empty());
  unused("--order", command.run.tiling.order != TilingOptions{}.order);
  unused("--in-tile-order", command.in_tile_order);
  unused("--repeats", command.repeats != BenchCommand{}.repeats);
  unused("--backend", command.backend.backend != BackendOptions{}.backend);
  unused("--threads", command.backend.threads != 0);
}

void run(const BenchCommand& command) {
  const std::vector<std::string> stages = bench_stages();
  for (const std::string& wanted : command.stages) {
    if (std::ranges::find(stages, wanted) == stages.end()) {
      fail_usage(
          fmt::format("--stage: expected one of {}, got {}", fmt::join(stages, ", "), wanted));
    }
  }
  const Context context = command.backend.context();
  const std::vector<BenchCase> cases = chosen_cases(command);
  if (command.list) {
    warn_of_unused(command);
    print_cases(cases, command.json);
    return;
  }
  if (context.num_threads > 0) omp_set_num_threads(context.num_threads);  // the GEMM, too
  const InterruptScope interrupt;
  GemmBase gemm;
  Outcome outcome;
  for (const BenchCase& c : cases) run_case(command, c, context, gemm, interrupt, outcome);
  if (!outcome.any_ran && !outcome.refusal.empty()) {
    throw Failure(ExitCode::kUnsupported, "nothing could run: " + outcome.refusal,
                  "--dtype takes the cases in another dtype, --case and --stage choose others");
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App& command = *app.add_subcommand(
      "bench", "measure the speed of the stages, of the operator, or of a model");
  add_text(command,
           {.names = "--cases",
            .kind = kPathKind,
            .help = "file or folder of cases",
            .default_value = options->cases},
           options->cases);
  add_values(command, {.names = "--case", .kind = "NAME", .help = "run these cases only"},
             options->names);
  add_values(command, {.names = "--stage", .kind = "STAGE", .help = "run these stages only"},
             options->stages);
  add_choice(
      command,
      {.names = "--dtype", .kind = {}, .help = "dtype of q, k and v; default: that of each case"},
      {"f32", "bf16", "f16", "f64"}, options->dtype);
  add_flag(command, "--in-tile-order", options->in_tile_order,
           "the tensors are in tile order already, without padding");
  add_whole(command, "--repeats", options->repeats, {.least = 1}, "how often each is timed");
  add_flag(command, "--list", options->list, "list the cases and end");
  options->run.add_model_to(command);
  options->run.add_size_to(command);
  options->run.add_attention_to(command);
  add_example(command, "vsa bench --case quick --repeats 5");
  options->backend.add_to(command);
  add_json_option(command, options->json);
  command.callback([options, &command] {
    if (options->run.model.empty()) {
      refuse_options(command, "without --model",
                     {"--variant", "--transformer", "--vae", "--text-encoder", "--frames", "--size",
                      "--attention", "--sparsity", "--topk", "--keep", "--tile", "--dense-steps",
                      "--dense-layers"});
      return run(*options);
    }
    refuse_options(command, "beside --model, whose passes are timed",
                   {"--cases", "--case", "--stage", "--dtype", "--list", "--in-tile-order"});
    bench_model_pass({.run = options->run,
                      .repeats = options->repeats,
                      .backend = options->backend,
                      .json = options->json});
  });
}

}  // namespace vsa::cli
