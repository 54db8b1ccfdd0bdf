// Finds the tensors of a model in a checkpoint by name and shape, and counts them. Host-only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/nn/weight.h"
#include "vsa/status.h"

namespace vsa::nn {

/// What was found in a checkpoint.
struct LoadSummary {
  int64_t loaded = 0;               ///< tensors
  int64_t parameters = 0;           ///< their elements
  std::string dtype;                ///< on file: "f16", ...; "mixed" if several
  std::vector<std::string> unused;  ///< names, as in the file
};

/// A checkpoint under the names of the model that is loaded. Nothing is read but the headers.
/// Faults are collected: a missing tensor is an empty Weight, and finish() names all that are
/// missing.
class WeightFinder {
 public:
  using Rename = std::function<std::string(std::string_view)>;

  /// @param checkpoint  must outlive the weights that are found
  /// @param model       how messages name it
  /// @param rename      from the file's names to the model's
  WeightFinder(
      const io::Checkpoint& checkpoint, std::string model,
      const Rename& rename = [](std::string_view name) { return std::string(name); });

  bool has(std::string_view name) const { return by_name_.contains(name); }

  /// One more than the largest N of a name that begins with `list`N, as "blocks.7."; 0 without any.
  int64_t length_of(std::string_view list) const;

  /// The extents of all tensors, by the model's names.
  std::map<std::string, std::vector<int64_t>, std::less<>> shapes() const;

  /// Changes that the tensors of these names are found with; before the first find().
  using Changes = std::map<std::string, std::shared_ptr<const WeightChange>, std::less<>>;
  void set_changes(Changes changes) { changes_ = std::move(changes); }

  /// Empty after a fault: missing, another shape, not a float type of 16 bits or more.
  Weight find(const std::string& name, const std::vector<int64_t>& shape);

  /// `name`.weight and, if wanted, `name`.bias.
  struct LinearSpec {
    LinearDims dims;
    bool bias = true;
    std::vector<int64_t> weight_shape{};  ///< if not [out, in]: a convolution used as a product
  };
  LinearWeights linear(const std::string& name, const LinearSpec& spec);

  /// Call once, after the last tensor.
  /// @return IoError naming the first wrong tensor, or else all missing ones, or those with a
  /// change
  ///         that the model does not have
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
  Changes changes_;
  Status status_;
};

}  // namespace vsa::nn
