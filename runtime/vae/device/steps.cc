// The steps of the decoder on a device. Host-only.
#include "runtime/vae/device/steps.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "runtime/nn/elementwise.h"
#include "runtime/nn/parallel.h"
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

Result<float*> DeviceSteps::staging(int64_t floats) {
  const int64_t bytes = floats * size_bytes(DType::kF32);
  if (staging_.size_bytes() < bytes) {
    Result<PinnedMemory> pinned = work_.memory().device().make_pinned(bytes);
    VSA_TRY(pinned.status());
    staging_ = std::move(*pinned);
  }
  return static_cast<float*>(staging_.data());
}

Status DeviceSteps::end(float* frames) {
  const Part& part = parts_[part_];
  const LayerShape& shape = part.shapes.back();
  const int64_t num_frames = work_.frames;
  VSA_TRY(end_part(work_, model_.network_, part));
  const int64_t row =
      shape.width_out * model_.network_.layer(part.first_layer + part.num_layers() - 1).out;
  const int64_t floats = shape.out.size() * row;  // of a frame
  const Result<float*> staged = staging(num_frames * floats);
  VSA_TRY(staged.status());
  VSA_TRY(work_.memory().copy_out(*staged, work_.p_data(),
                                  num_frames * floats * size_bytes(DType::kF32)));
  std::atomic<bool> finite = true;
  nn::parallel_rows(num_frames * shape.out.size(), [&](const nn::RowBlock& rows) {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const int64_t to_row =
          i / shape.out.size() * shape.height_out + shape.out.begin + i % shape.out.size();
      const std::span<const float> from(*staged + i * row, static_cast<size_t>(row));
      std::ranges::copy(from, frames + to_row * row);
      if (!nn::all_finite(from)) finite = false;
    }
  });
  finite_ = finite;
  return {};
}

}  // namespace vsa::vae::device
