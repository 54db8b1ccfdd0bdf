// Takes tensors out of a checkpoint by name, as f32, and keeps account. Host-only.
#include "runtime/nn/weight_loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vsa::nn {
namespace {

/// At most `limit` names, so that the message of a wholly foreign file stays readable.
std::string list(const std::vector<std::string>& names, size_t limit) {
  const std::vector<std::string> head(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(limit, names.size())));
  const std::string text = fmt::format("{}", fmt::join(head, ", "));
  return names.size() > limit ? fmt::format("{} and {} more", text, names.size() - limit) : text;
}

}  // namespace

WeightLoader::WeightLoader(const io::Checkpoint& checkpoint, std::string model,
                           const Rename& rename)
    : model_(std::move(model)) {
  for (const auto& [file_name, view] : checkpoint.tensors()) {
    const auto [at, fresh] = by_name_.try_emplace(rename(file_name), Entry{file_name, &view});
    if (!fresh) {
      fail(io_error(fmt::format("[load] {}: expected one tensor {}, got two: {} and {}", model_,
                                at->first, at->second.file_name, file_name)));
    }
  }
}

void WeightLoader::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

const io::TensorView* WeightLoader::view(const std::string& name,
                                         const std::vector<int64_t>& shape) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    missing_.push_back(name);
    return nullptr;
  }
  taken_.insert(name);
  const io::TensorView* view = found->second.view;
  if (view->shape != shape) {
    fail(io_error(fmt::format("[load] {}: {}: expected shape [{}], got {}", model_,
                              found->second.file_name, fmt::join(shape, ","),
                              io::to_string(*view))));
    return nullptr;
  }
  return view;
}

std::vector<float> WeightLoader::tensor(const std::string& name,
                                        const std::vector<int64_t>& shape) {
  const io::TensorView* found = view(name, shape);
  if (found == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(found->num_elements()));
  if (!io::copy_as_f32(*found, values).ok()) {
    fail(io_error(fmt::format("[load] {}: {}: expected f16, bf16, f32 or f64, got {}", model_, name,
                              io::to_string(*found))));
  }
  io::release_pages(found->bytes);
  return values;
}

Linear WeightLoader::linear(const std::string& name, const LinearSpec& spec) {
  const std::vector<int64_t> shape =
      spec.weight_shape.empty() ? std::vector{spec.dims.out, spec.dims.in} : spec.weight_shape;
  const std::vector<float> bias =
      spec.bias ? tensor(name + ".bias", {spec.dims.out}) : std::vector<float>();
  const std::vector<float> weight = tensor(name + ".weight", shape);
  if (weight.empty() || (spec.bias && bias.empty())) return {};
  return Linear(spec.dims, weight, bias, spec.activation);
}

Result<LoadSummary> WeightLoader::finish() const {
  VSA_TRY(status_);
  if (!missing_.empty()) {
    return io_error(fmt::format("[load] {}: expected {} tensors, {} of them are missing: {}",
                                model_, taken_.size() + missing_.size(), missing_.size(),
                                list(missing_, 8)));
  }
  LoadSummary summary;
  summary.loaded = std::ssize(taken_);
  for (const auto& [name, entry] : by_name_) {
    if (!taken_.contains(name)) {
      summary.unused.push_back(entry.file_name);
      continue;
    }
    summary.parameters += entry.view->num_elements();
    const std::string dtype(io::name(entry.view->type));
    if (summary.dtype.empty()) summary.dtype = dtype;
    if (summary.dtype != dtype) summary.dtype = "mixed";
  }
  return summary;
}

}  // namespace vsa::nn
