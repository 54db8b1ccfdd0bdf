// Finds the tensors of a model in a checkpoint by name and shape, and keeps account. Host-only.
#include "runtime/nn/weight_finder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

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

WeightFinder::WeightFinder(const io::Checkpoint& checkpoint, std::string model,
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

int64_t WeightFinder::length_of(std::string_view list) const {
  int64_t length = 0;
  for (auto at = by_name_.lower_bound(list); at != by_name_.end() && at->first.starts_with(list);
       ++at) {
    const char* const begin = at->first.data() + list.size();
    int64_t index = 0;
    const auto [end, fault] = std::from_chars(begin, at->first.data() + at->first.size(), index);
    if (fault == std::errc() && *end == '.' && index >= 0) length = std::max(length, index + 1);
  }
  return length;
}

std::map<std::string, std::vector<int64_t>, std::less<>> WeightFinder::shapes() const {
  std::map<std::string, std::vector<int64_t>, std::less<>> shapes;
  for (const auto& [name, entry] : by_name_) shapes.emplace(name, entry.view->shape);
  return shapes;
}

void WeightFinder::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Weight WeightFinder::find(const std::string& name, const std::vector<int64_t>& shape) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    missing_.push_back(name);
    return {};
  }
  taken_.insert(name);
  const auto& [file_name, view] = found->second;
  if (view->shape != shape) {
    fail(io_error(fmt::format("[load] {}: {}: expected shape [{}], got {}", model_, file_name,
                              fmt::join(shape, ","), io::to_string(*view))));
    return {};
  }
  if (!io::to_dtype(view->type)) {
    fail(unsupported(fmt::format(
        "[load] {}: {}: expected f16, bf16, f32 or f64, got {}; take the bf16 or f16 file of the "
        "same model",
        model_, file_name, io::to_string(*view))));
    return {};
  }
  const auto change = changes_.find(name);
  return {.name = name,
          .type = view->type,
          .shape = view->shape,
          .bytes = view->bytes,
          .in_file = true,
          .change = change == changes_.end() ? nullptr : change->second};
}

LinearWeights WeightFinder::linear(const std::string& name, const LinearSpec& spec) {
  const std::vector<int64_t> shape =
      spec.weight_shape.empty() ? std::vector{spec.dims.out, spec.dims.in} : spec.weight_shape;
  LinearWeights linear{.dims = spec.dims, .weight = {}, .bias = {}};
  if (spec.bias) linear.bias = find(name + ".bias", {spec.dims.out});
  linear.weight = find(name + ".weight", shape);
  return linear;
}

Result<LoadSummary> WeightFinder::finish() const {
  VSA_TRY(status_);
  if (!missing_.empty()) {
    return io_error(fmt::format("[load] {}: expected {} tensors, {} of them are missing: {}",
                                model_, taken_.size() + missing_.size(), missing_.size(),
                                list(missing_, 8)));
  }
  for (const auto& [name, change] : changes_) {
    if (taken_.contains(name)) continue;
    return io_error(
        fmt::format("[lora] {}: expected changes of its tensors, got one of {}, which it "
                    "does not use",
                    model_, name));
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
