// Fills a run's report from what the run knows. Host-only.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/model_folder.h"
#include "runtime/nn/weight_finder.h"
#include "runtime/pipeline.h"
#include "runtime/report.h"
#include "runtime/run_plan.h"

namespace vsa::runtime {

/// Versions, options as resolved, and attention; everything that is known before the run.
void describe(const GenerateOptions& options, const ModelFolder& model, const RunPlan& plan,
              GenerateReport& report);

/// All files that a run of the model reads: its JSON files, the tokenizer, and these weights.
std::vector<std::filesystem::path> model_files(const ModelFolder& model,
                                               const std::vector<const io::Checkpoint*>& weights);

/// How a report names a file: relative to `root` if it lies there.
std::string path_in_report(const std::filesystem::path& root, const std::filesystem::path& path);

/// Size and hash of a file, under its path relative to `root` if it lies there. Cost: one read of
/// it.
/// @param cancel  as of io::sha256_of_file
/// @return IoError if it cannot be read | Cancelled
Result<FileReport> file_report(const std::filesystem::path& root, const std::filesystem::path& path,
                               const std::atomic<bool>* cancel = nullptr);

WeightsReport weights_report(const nn::LoadSummary& summary, const std::string& naming);

/// Mean over all layers of all steps; 0 if there are none.
double mean_kept_share(const std::vector<StepReport>& steps);

/// Largest resident memory of this process so far.
int64_t peak_memory_bytes();

}  // namespace vsa::runtime
