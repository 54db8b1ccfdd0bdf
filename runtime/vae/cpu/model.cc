// Wan2.1's VAE on the CPU, in f32. Host-only.
#include "runtime/vae/cpu/model.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "runtime/nn/elementwise.h"
#include "runtime/nn/isa.h"
#include "runtime/nn/parallel.h"
#include "runtime/vae/cpu/layer.h"
#include "runtime/vae/cpu/memory.h"

namespace vsa::vae::cpu {
namespace {

using Layers = std::vector<std::unique_ptr<CpuLayer>>;

/// Steps are synchronous: all work of a step is done when it returns.
class CpuSteps : public Steps {
 public:
  CpuSteps(const Network& network, const Layers& layers, std::vector<Part> parts,
           int64_t num_frames)
      : network_(network), layers_(layers), parts_(std::move(parts)), states_(parts_.size()) {
    const WorkspaceFloats floats = workspace_floats(network, parts_, num_frames);
    space_.x = nn::Buffer(floats.x);
    space_.spare = nn::Buffer(floats.x);
    space_.padded = nn::Buffer(floats.padded);
  }

  Status begin(int64_t part, const float* frames, int64_t num_frames) override {
    part_ = static_cast<size_t>(part);
    if (states_[part_].chunks == 0) states_[part_].start(network_, parts_[part_]);
    ++states_[part_].chunks;
    space_.frames = num_frames;
    const int64_t channels = network_.layer(parts_[part_].first_layer).in;
    const LayerShape& shape = parts_[part_].shapes.front();
    const int64_t row = shape.width_in * channels;
    for (int64_t f = 0; f < num_frames; ++f) {
      std::copy_n(frames + (f * shape.height_in + shape.in.begin) * row, shape.in.size() * row,
                  space_.x.data() + f * shape.in.size() * row);
    }
    return {};
  }

  Status run(int64_t layer) override {
    const auto index = static_cast<size_t>(layer - parts_[part_].first_layer);
    State& state = states_[part_];
    const LayerShape& shape = parts_[part_].shapes[index];
    layers_[static_cast<size_t>(layer)]->run({.shape = shape,
                                              .history = state.layers[index],
                                              .space = space_,
                                              .first_chunk = state.chunks == 1});
    size_ = space_.frames * shape.out.size() * shape.width_out * network_.layer(layer).out;
    return {};
  }

  Result<bool> finite() override {
    std::atomic<bool> finite = true;
    constexpr int64_t kPart = 16384;  // floats, which stay in the L1 and L2 caches
    nn::parallel_rows((size_ + kPart - 1) / kPart, [&](const nn::RowBlock& block) {
      const int64_t begin = block.begin * kPart;
      const int64_t size = std::min(size_, block.end * kPart) - begin;
      if (!nn::all_finite({space_.x.data() + begin, static_cast<size_t>(size)})) finite = false;
    });
    return finite.load();
  }

  Status end(float* frames) override {
    const Part& part = parts_[part_];
    const LayerShape& shape = part.shapes.back();
    const int64_t row =
        shape.width_out * network_.layer(part.first_layer + part.num_layers() - 1).out;
    for (int64_t f = 0; f < space_.frames; ++f) {
      std::copy_n(space_.x.data() + f * shape.out.size() * row, shape.out.size() * row,
                  frames + (f * shape.height_out + shape.out.begin) * row);
    }
    return {};
  }

  void finish(int64_t part) override { states_[static_cast<size_t>(part)] = {}; }

 private:
  /// What a part keeps from chunk to chunk.
  struct State {
    std::unique_ptr<HistorySpace> space;
    std::vector<LayerHistory> layers;
    int64_t chunks = 0;  // that have begun

    void start(const Network& network, const Part& part) {
      space = std::make_unique<HistorySpace>(history_floats(network, part));
      layers.assign(part.shapes.size(), {.conv = {space.get(), {}}, .conv2 = {space.get(), {}}});
    }
  };

  const Network& network_;
  const Layers& layers_;
  std::vector<Part> parts_;
  std::vector<State> states_;
  Workspace space_;
  size_t part_ = 0;   // the part of the current chunk
  int64_t size_ = 0;  // floats of x
};

class CpuModel : public Model {
 public:
  explicit CpuModel(VaeWeights weights) : weights_(std::move(weights)) {
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      layers_.push_back(make_layer(weights_.network.layers[i], weights_.layers[i]));
    }
  }

  const VaeConfig& config() const override { return weights_.config; }
  const Network& network() const override { return weights_.network; }
  Result<std::unique_ptr<Steps>> make_steps(std::vector<Part> parts, int64_t num_frames) override {
    return std::unique_ptr<Steps>(
        std::make_unique<CpuSteps>(network(), layers_, std::move(parts), num_frames));
  }

 private:
  VaeWeights weights_;
  Layers layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> make_model(VaeWeights weights) {
  VSA_TRY(nn::check_isa());
  return std::unique_ptr<Model>(std::make_unique<CpuModel>(std::move(weights)));
}

}  // namespace vsa::vae::cpu
