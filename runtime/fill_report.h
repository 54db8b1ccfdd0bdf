// Fills a run's report from what the run knows. Host-only.
#pragma once

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

/// All files that a run of the model reads.
std::vector<std::filesystem::path> model_files(const ModelFolder& model, const io::Checkpoint& text,
                                               const io::Checkpoint& transformer);

/// Size and hash of a file, under its path relative to `root`. Cost: one read of it.
/// @return IoError if it cannot be read
Result<FileReport> file_report(const std::filesystem::path& root,
                               const std::filesystem::path& path);

WeightsReport weights_report(const nn::LoadSummary& summary, const std::string& naming);

/// Mean over all layers of all steps; 0 if there are none.
double mean_kept_share(const std::vector<StepReport>& steps);

/// Largest resident memory of this process so far.
int64_t peak_memory_bytes();

}  // namespace vsa::runtime
