// `vsa generate`: a video from a prompt.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/generate/batch.h"
#include "cli/generate/compare.h"
#include "cli/generate/options.h"
#include "cli/generate/outputs.h"
#include "cli/generate/run.h"
#include "runtime/text/clean.h"

namespace vsa::cli {
namespace {

struct GenerateCommand {
  SamplingOptions sampling;
  OutputOptions output;
  BatchOptions batch;
  bool compare = false;
  bool json = false;
};

/// One prompt, one video.
void generate_one(const GenerateCommand& command) {
  const runtime::GenerateOptions options = command.sampling.to_runtime();
  const OutputPaths paths = command.output.paths();
  const InterruptScope interrupt;
  ProgressBar bar;
  runtime::GenerateReport report;
  const video::Frames frames =
      generate_to_files({.options = options, .paths = paths, .label = ""}, bar, interrupt, report);
  print_warnings(report);
  if (command.json) {
    nlohmann::ordered_json result = runtime::to_json(report);
    result["output"] = paths.video.string();
    print_json(result);
  } else {
    print_result(summary(report, paths));
  }
}

void run(const GenerateCommand& command) {
  if (!command.batch.file.empty()) {
    if (command.compare) fail_usage("--compare: expected no --batch beside it");
    if (!command.sampling.prompt.empty()) fail_usage("--prompt: expected no --batch beside it");
    run_batch(command.sampling, command.output, command.batch);
    return;
  }
  if (take(text::clean_prompt(command.sampling.prompt)).empty()) {
    fail_usage("--prompt: expected a text, got none", "--batch FILE takes many from a file");
  }
  if (command.compare) {
    run_compare(command.sampling, command.output, command.json);
  } else {
    generate_one(command);
  }
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommand>();
  CLI::App& command = *app.add_subcommand("generate", "a video from a prompt");
  options->sampling.add_to(command);
  options->output.add_to(command);
  options->batch.add_to(command);
  command.add_flag("--compare", options->compare,
                   "also run dense attention, and compare the two videos");
  add_json_option(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
