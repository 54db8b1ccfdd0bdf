// `vsa generate`: a video from a prompt.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "cli/common/output.h"
#include "cli/generate/batch.h"
#include "cli/generate/compare.h"
#include "cli/generate/options.h"
#include "cli/generate/outputs.h"
#include "cli/generate/run.h"
#include "cli/generate/stdout_video.h"
#include "runtime/text/clean.h"

namespace vsa::cli {
namespace {

struct GenerateCommand {
  SamplingOptions sampling;
  OutputOptions output;
  StreamOptions stream;
  BatchOptions batch;
  bool compare = false;
  bool json = false;
};

/// One prompt, one video.
void generate_one(const GenerateCommand& command) {
  const runtime::GenerateOptions options = command.sampling.to_runtime();
  OutputOptions output = command.output;
  std::optional<StdoutVideo> stream;
  if (output.video == kStdout) output.video = stream.emplace(command.stream, command.json).path();
  OutputPaths paths = output.paths();
  const InterruptScope interrupt;
  ProgressBar bar;
  runtime::GenerateReport report;
  const video::Frames frames = generate_to_files(
      {.options = options, .preview = command.sampling.preview, .paths = paths, .label = ""}, bar,
      interrupt, report);
  print_warnings(report);
  if (stream) {
    stream->send();
    paths.video = "standard output";
    write_stderr(summary(report, paths));
  } else if (command.json) {
    nlohmann::ordered_json result = runtime::to_json(report);
    result["output"] = paths.video.string();
    print_json(result);
  } else {
    print_result(summary(report, paths));
  }
}

void run(const GenerateCommand& command) {
  const bool to_stdout = command.output.video == kStdout;
  command.batch.warn_of_unused();
  if (!to_stdout) command.stream.warn_of_unused();
  if (command.output.overwrite && !command.compare)
    warn("--overwrite: has no effect without --compare");
  warn_of_unused_fps(command.sampling.video.fps, command.output.video);
  if (!command.batch.file.empty()) {
    if (command.compare) fail_usage("--compare: expected no --batch beside it");
    if (!command.sampling.resume.empty()) {
      fail_usage("--resume: expected no --batch beside it, as it is of one run");
    }
    if (!command.sampling.prompt.empty()) fail_usage("--prompt: expected no --batch beside it");
    run_batch(command.sampling, command.output, command.batch);
    return;
  }
  if (take(text::clean_prompt(command.sampling.prompt)).empty()) {
    fail_usage("--prompt: expected a text, got none",
               "-p \"a red circle moving right\", or --batch FILE for many prompts of a file");
  }
  if (command.compare && !command.sampling.resume.empty()) {
    fail_usage("--resume: expected no --compare beside it, as it is of one run");
  }
  if (!command.compare) {
    generate_one(command);
  } else if (to_stdout) {
    fail_usage("--compare: expected another --output than -, as it writes three videos");
  } else {
    run_compare(command.sampling, command.output, command.json);
  }
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommand>();
  CLI::App& command = *app.add_subcommand("generate", "make a video from a prompt");
  options->sampling.add_to(command);
  options->output.add_to(command);
  options->stream.add_to(command);
  options->batch.add_to(command);
  add_flag(command, "--compare", options->compare,
           "also run dense attention, and compare the two videos");
  add_json_option(command, options->json);
  add_example(command, "vsa generate -p \"a red circle moving right\" -o circle.mp4");
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
