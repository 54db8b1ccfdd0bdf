// Fills a run's report from what the run knows. Host-only.
#include "runtime/fill_report.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "runtime/io/sha256.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/parallel.h"
#include "vsa/version.h"

namespace vsa::runtime {

namespace fs = std::filesystem;

std::vector<fs::path> model_files(const ModelFolder& model,
                                  const std::vector<const io::Checkpoint*>& weights) {
  std::vector<fs::path> paths = model.config_files;
  paths.push_back(model.tokenizer_at);
  for (const io::Checkpoint* part : weights) {
    for (const fs::path& path : part->paths()) {
      // Parts may share a file, which is hashed once.
      if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
    }
  }
  return paths;
}

std::string path_in_report(const fs::path& root, const fs::path& path) {
  const fs::path relative = path.lexically_relative(root);
  const bool is_inside = !relative.empty() && *relative.begin() != "..";
  return (is_inside ? relative : path).string();
}

Result<FileReport> file_report(const fs::path& root, const fs::path& path,
                               const std::atomic<bool>* cancel) {
  const Result<std::string> hash = io::sha256_of_file(path, cancel);
  if (!hash.ok()) return hash.status();
  return FileReport{.path = path_in_report(root, path),
                    .bytes = static_cast<int64_t>(fs::file_size(path)),
                    .sha256 = *hash};
}

WeightsReport weights_report(const nn::LoadSummary& summary, const std::string& naming) {
  return {.naming = naming,
          .dtype = summary.dtype,
          .parameters = summary.parameters,
          .loaded = summary.loaded,
          .unused = summary.unused};
}

namespace {

/// The last part of a path, without a slash that it may end with.
std::string folder_name(const fs::path& folder) {
  std::error_code ignored;  // a path that cannot be resolved keeps its spelling
  const fs::path whole = fs::weakly_canonical(folder, ignored);
  return (ignored ? folder : whole).filename().string();
}

}  // namespace

void describe(const GenerateOptions& options, const ModelFolder& model, const RunPlan& plan,
              GenerateReport& report) {
  report.vsa_version = VSA_VERSION_STRING;
  report.onednn_version = nn::onednn_version();
  report.backend = name(options.backend);
  report.backend_detail = plan.backend_detail;
  report.num_threads = nn::num_threads();
  report.model = folder_name(model.root);
  report.prompt = options.prompt;
  report.negative_prompt = plan.negative_prompt;
  report.seed = plan.seed;
  report.steps = plan.steps;
  report.frames = plan.frames;
  report.height_px = plan.size.height;
  report.width_px = plan.size.width;
  report.fps = plan.fps;
  report.guidance = plan.guidance;
  report.shift = plan.scheduler.shift;
  report.scheduler = sampler::name(plan.scheduler.kind);
  report.attention = name(options.attention);
  report.grid_tokens = {plan.grid.f, plan.grid.h, plan.grid.w};
  report.order = vsa::name(plan.tiling.order);
  const TileShape& tile = plan.tiling.tile;
  report.tile_shape = {tile.f, tile.h, tile.w};
  report.num_tiles = plan.num_tiles;
  report.topk = plan.topk;
  report.dense_steps = options.dense_steps;
  report.dense_layers = options.dense_layers;
  report.warnings = model.warnings;
  report.warnings.insert(report.warnings.end(), plan.warnings.begin(), plan.warnings.end());
  report.ignored_config_fields = model.ignored;
}

double mean_kept_share(const std::vector<StepReport>& steps) {
  double sum = 0.0;
  int64_t count = 0;
  for (const StepReport& step : steps) {
    for (const LayerReport& layer : step.layers) {
      sum += layer.kept_share;
      ++count;
    }
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;  // Linux counts in KiB
}

}  // namespace vsa::runtime
