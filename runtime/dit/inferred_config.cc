// The configuration of a transformer whose file has none, from the shapes of its tensors.
#include "runtime/dit/inferred_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "runtime/dit/other_models.h"
#include "runtime/dit/tensor_names.h"

namespace vsa::dit {
namespace {

/// The shapes of a checkpoint by diffusers' names; the first fault is kept.
class Shapes {
 public:
  Shapes(const io::Checkpoint& checkpoint, Naming naming) {
    for (const auto& [file_name, view] : checkpoint.tensors()) {
      by_name_.emplace(diffusers_name(file_name, naming), &view);
    }
  }

  bool has(const std::string& name) const { return by_name_.contains(name); }

  /// The shape of a tensor of that rank; ones after a fault.
  std::vector<int64_t> of(const std::string& name, size_t rank) {
    const auto found = by_name_.find(name);
    if (found != by_name_.end() && found->second->shape.size() == rank &&
        !found->second->bytes.empty()) {
      return found->second->shape;
    }
    if (status_.ok()) {
      status_ = io_error(
          fmt::format("[load] transformer: {}: expected a tensor of {} extents, got {}", name, rank,
                      found == by_name_.end() ? "none" : io::to_string(*found->second)));
    }
    return std::vector<int64_t>(rank, 1);
  }

  /// Layers that follow each other from 0.
  int64_t num_layers() const {
    int64_t layers = 0;
    while (has(fmt::format("blocks.{}.scale_shift_table", layers))) ++layers;
    return layers;
  }

  const Status& status() const { return status_; }

 private:
  std::map<std::string, const io::TensorView*> by_name_;
  Status status_;
};

/// Splits the width into heads; Wan2.1's have 128 elements.
Status set_heads(int64_t width, const std::optional<WanConfig>& like, WanConfig& config) {
  if (like && like->width() == width) {
    config.num_heads = like->num_heads;
    config.head_dim = like->head_dim;
    config.eps = like->eps;
    config.rope_max_seq_len = like->rope_max_seq_len;
    return {};
  }
  constexpr int64_t kHeadDim = 128;
  if (width % kHeadDim != 0) {
    return io_error(fmt::format(
        "[load] transformer: expected a width that is a multiple of {} (a head of Wan2.1), got {}; "
        "a config.json beside the file says what the heads are",
        kHeadDim, width));
  }
  config.num_heads = width / kHeadDim;
  config.head_dim = kHeadDim;
  return {};
}

}  // namespace

Result<WanConfig> infer_wan_config(const io::Checkpoint& checkpoint,
                                   const std::optional<WanConfig>& like) {
  VSA_TRY(refuse_other_models(checkpoint));
  std::vector<std::string> names;
  for (const auto& [name, view] : checkpoint.tensors()) names.push_back(name);
  const Result<Naming> naming = detect_naming(names);
  VSA_TRY(naming.status());
  Shapes shapes(checkpoint, *naming);
  const auto patch = shapes.of("patch_embedding.weight", 5);
  const auto time = shapes.of("condition_embedder.time_embedder.linear_1.weight", 2);
  const auto text = shapes.of("condition_embedder.text_embedder.linear_1.weight", 2);
  const auto up = shapes.of("blocks.0.ffn.net.0.proj.weight", 2);
  const auto head = shapes.of("proj_out.weight", 2);
  VSA_TRY(shapes.status());

  WanConfig config;
  VSA_TRY(set_heads(patch[0], like, config));
  config.in_channels = patch[1];
  config.patch = {patch[2], patch[3], patch[4]};
  config.out_channels = head[0] / config.patch.volume();
  config.text_dim = text[1];
  config.freq_dim = time[1];
  config.ffn_dim = up[0];
  config.num_layers = shapes.num_layers();
  config.qk_norm = shapes.has("blocks.0.attn1.norm_q.weight");
  config.cross_attn_norm = shapes.has("blocks.0.norm2.weight");
  if (config.in_channels != config.out_channels) {
    return unsupported(
        fmt::format("[load] transformer: patch_embedding.weight: expected as many channels in as "
                    "out ({}), got {}: image-to-video and control models are not supported",
                    config.out_channels, config.in_channels));
  }
  VSA_TRY(check_wan_config(config, checkpoint.paths().front().string()));
  return config;
}

}  // namespace vsa::dit
