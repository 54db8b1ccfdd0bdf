// Takes tensors out of a checkpoint by name, as f32, and keeps account. Host-only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/nn/linear.h"
#include "vsa/status.h"

namespace vsa::nn {

/// What came of a checkpoint.
struct LoadSummary {
  int64_t loaded = 0;               ///< tensors
  int64_t parameters = 0;           ///< their elements
  std::string dtype;                ///< on file: "f16", ...; "mixed" if several
  std::vector<std::string> unused;  ///< names, as in the file
};

/// A checkpoint under the names of the model that is loaded. Faults are collected: a missing tensor
/// reads as empty, and finish() tells all that were missing at once. A tensor's pages are released
/// once it is converted, so peak memory is the weights in f32 and one tensor.
class WeightLoader {
 public:
  using Rename = std::function<std::string(std::string_view)>;

  /// @param checkpoint  must outlive the loader
  /// @param model       how messages name it
  /// @param rename      from the file's names to the model's
  WeightLoader(
      const io::Checkpoint& checkpoint, std::string model,
      const Rename& rename = [](std::string_view name) { return std::string(name); });

  bool has(std::string_view name) const { return by_name_.contains(name); }

  /// A tensor as f32; empty after a fault: missing, other shape, not a float type.
  std::vector<float> tensor(const std::string& name, const std::vector<int64_t>& shape);

  /// `name`.weight and, if wanted, `name`.bias.
  struct LinearSpec {
    LinearDims dims;
    Activation activation = Activation::kNone;
    bool bias = true;
    std::vector<int64_t> weight_shape{};  ///< if not [out, in]: a convolution used as a GEMM
  };
  Linear linear(const std::string& name, const LinearSpec& spec);

  /// The view of a tensor, unconverted, which counts as loaded; null if it is missing.
  const io::TensorView* view(const std::string& name, const std::vector<int64_t>& shape);

  /// Call once, after the last tensor.
  /// @return IoError naming the first wrong tensor, or else all missing ones
  Result<LoadSummary> finish() const;

 private:
  struct Entry {
    std::string file_name;
    const io::TensorView* view = nullptr;
  };
  void fail(Status status);

  std::string model_;
  std::map<std::string, Entry, std::less<>> by_name_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> missing_;
  Status status_;
};

}  // namespace vsa::nn
