// The steps of the decoder on a device: the library's stages on one stream, in the device's memory.
// Host-only.
#pragma once

#include <memory>
#include <vector>

#include "runtime/vae/device/model.h"
#include "runtime/vae/device/work.h"

namespace vsa::vae::device {

/// begin and run enqueue and return; end waits for its frames. finite() says what end() saw.
class DeviceSteps : public Steps {
 public:
  static Result<std::unique_ptr<Steps>> make(const DeviceModel& model, std::vector<Part> parts,
                                             int64_t num_frames);

  Status begin(int64_t part, const float* frames, int64_t num_frames) override;
  Status run(int64_t layer) override;
  Result<bool> finite() override { return finite_; }
  Status end(float* frames) override;
  void finish(int64_t part) override { states_[static_cast<size_t>(part)] = {}; }

 private:
  /// What a part keeps from chunk to chunk.
  struct State {
    History history;
    std::vector<LayerHistory> kept;
    int64_t chunks = 0;  // that have begun
  };
  DeviceSteps(const DeviceModel& model, std::vector<Part> parts, Work work);
  Status start(State& state, const Part& part);
  /// So many floats of pinned memory, into which a device copies several times as fast.
  Result<float*> staging(int64_t floats);

  const DeviceModel& model_;
  std::vector<Part> parts_;
  std::vector<State> states_;
  Work work_;
  PinnedMemory staging_;
  size_t part_ = 0;  // the part of the current chunk
  bool finite_ = true;
};

}  // namespace vsa::vae::device
