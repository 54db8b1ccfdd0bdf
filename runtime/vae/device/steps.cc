// The steps of the decoder on a device. Host-only.
#include "runtime/vae/device/steps.h"

#include <algorithm>
#include <utility>

#include "runtime/nn/elementwise.h"
#include "runtime/vae/device/memory_needed.h"

namespace vsa::vae::device {

DeviceSteps::DeviceSteps(const DeviceModel& model, std::vector<Part> parts, Work work)
    : model_(model), parts_(std::move(parts)), states_(parts_.size()), work_(std::move(work)) {}

Result<std::unique_ptr<Steps>> DeviceSteps::make(const DeviceModel& model, std::vector<Part> parts,
                                                 int64_t num_frames) {
  const WorkBytes bytes =
      work_bytes(model.network_, parts, num_frames, model.memory_->token_dtype());
  Result<Work> work = Work::make(model.memory_, bytes);
  VSA_TRY(work.status());
  return std::unique_ptr<Steps>(new DeviceSteps(model, std::move(parts), std::move(*work)));
}

Status DeviceSteps::start(State& state, const Part& part) {
  const int64_t bytes = history_bytes(model_.network_, part, work_.token());
  Result<Array> memory = work_.memory().array(bytes);
  VSA_TRY(memory.status());
  VSA_TRY(work_.memory().fill(memory->data(), 0, bytes));  // ahead of a video there are zeros
  state.history = History(std::move(*memory));
  state.kept.resize(part.shapes.size());
  return {};
}

Status DeviceSteps::begin(int64_t part, const float* frames, int64_t num_frames) {
  part_ = static_cast<size_t>(part);
  State& state = states_[part_];
  if (state.chunks == 0) VSA_TRY(start(state, parts_[part_]));
  ++state.chunks;
  return begin_part(work_, model_.network_, parts_[part_], frames, num_frames);
}

Status DeviceSteps::run(int64_t layer) {
  State& state = states_[part_];
  const auto index = static_cast<size_t>(layer - parts_[part_].first_layer);
  return run_layer(work_, {.layer = model_.network_.layer(layer),
                           .weights = model_.layers_[static_cast<size_t>(layer)],
                           .shape = parts_[part_].shapes[index],
                           .kept = state.kept[index],
                           .history = state.history,
                           .first_chunk = state.chunks == 1});
}

Status DeviceSteps::end(float* frames) {
  const Part& part = parts_[part_];
  const LayerShape& shape = part.shapes.back();
  const int64_t num_frames = work_.frames;
  VSA_TRY(end_part(work_, model_.network_, part));
  const int64_t row =
      shape.width_out * model_.network_.layer(part.first_layer + part.num_layers() - 1).out;
  const int64_t floats = shape.out.size() * row;
  finite_ = true;
  for (int64_t f = 0; f < num_frames; ++f) {
    float* const to = frames + (f * shape.height_out + shape.out.begin) * row;
    VSA_TRY(work_.memory().copy_out(to, static_cast<const float*>(work_.p_data()) + f * floats,
                                    floats * size_bytes(DType::kF32)));
    finite_ = finite_ && nn::all_finite({to, static_cast<size_t>(floats)});
  }
  return {};
}

}  // namespace vsa::vae::device
