// Attention tensors in a safetensors file: found by name, as [B, H, S, D] whatever the order on
// file. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/owned_tensor.h"
#include "cli/common/tiling_options.h"
#include "runtime/io/safetensors.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::cli {

/// The files, names and tiles of q, k, v and the gates; shared by attend and inspect.
struct TensorOptions {
  std::string file;
  std::string layout = "bshd";
  std::string q = "q", k = "k", v = "v";
  std::optional<Grid> grid, kv_grid;  ///< no kv_grid: as grid
  TilingOptions tiling;
  std::optional<float> scale;

  void add_to(CLI::App& command);
};

/// q, k and v of one file and their tiles, checked to fit together. Immovable: tensors and plans
/// are pointed at.
class AttentionInput {
 public:
  /// Throws Failure: kUsage if options do not fit each other or the tensors, kInputOutput if the
  /// file or a tensor in it is missing or wrong.
  explicit AttentionInput(const TensorOptions& options);
  AttentionInput(const AttentionInput&) = delete;
  AttentionInput& operator=(const AttentionInput&) = delete;

  /// A gate of that name, [B, H, S, D] as q; nothing if there is none. Throws Failure(kUsage) if it
  /// is not like q.
  std::optional<ConstTensor> find_gate(const std::string& name);

  const io::SafetensorsFile& file() const { return file_; }
  Layout layout() const { return layout_; }
  const ConstTensor& q() const { return q_; }
  const ConstTensor& k() const { return k_; }
  const ConstTensor& v() const { return v_; }
  Grid grid() const { return grid_; }
  Grid kv_grid() const { return kv_grid_; }
  const Tiling& tiling() const { return tiling_; }
  const TilePlan& q_plan() const { return *q_plan_; }
  const TilePlan& kv_plan() const { return *kv_plan_; }
  int64_t batch() const { return q_.shape[0]; }
  int64_t num_heads() const { return q_.shape[1]; }
  int64_t num_kv_heads() const { return k_.shape[1]; }
  int64_t head_dim() const { return q_.shape[3]; }

 private:
  std::optional<ConstTensor> find(const std::string& name);
  ConstTensor require(const std::string& option, const std::string& name);
  ConstTensor view(const std::string& name, const io::TensorView& tensor);

  std::string path_;
  io::SafetensorsFile file_;
  Layout layout_ = Layout::kBshd;
  std::vector<std::unique_ptr<std::byte[]>> copies_;  // of tensors that are not aligned on file
  Grid grid_, kv_grid_;
  Tiling tiling_;
  std::optional<TilePlan> q_plan_, kv_plan_;
  ConstTensor q_, k_, v_;
};

}  // namespace vsa::cli
