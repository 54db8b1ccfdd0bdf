// The weights of a model's layers, brought to the device while it computes. Host-only.
#include "runtime/device/streamed_layers.h"

#include <cstring>
#include <utility>

namespace vsa::device {

/// Writes to the pinned memory of a layer what its arrays, which are parts of a slot, get in each
/// pass.
class StreamedLayers::Place : public WeightPlace {
 public:
  Place(const Array& slot, void* pinned)
      : slot_(static_cast<std::byte*>(slot.data())),
        size_bytes_(slot.size_bytes()),
        pinned_(static_cast<std::byte*>(pinned)) {}

  Result<Array> array(int64_t size_bytes) override {
    const int64_t begin = taken_;
    taken_ += (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (taken_ > size_bytes_) {
      return Status(StatusCode::kInternal, "[load] layers: expected all of one size");
    }
    return Array::part(slot_ + begin, size_bytes);
  }

  Status copy_in(void* to, const void* from, int64_t size_bytes) const override {
    std::memcpy(pinned_ + (static_cast<std::byte*>(to) - slot_), from,
                static_cast<size_t>(size_bytes));
    return {};
  }

 private:
  std::byte* slot_;
  int64_t size_bytes_;
  std::byte* pinned_;
  int64_t taken_ = 0;
};

Result<std::unique_ptr<StreamedLayers>> StreamedLayers::make(std::shared_ptr<Memory> memory,
                                                             int64_t num_layers,
                                                             int64_t layer_bytes) {
  std::unique_ptr<StreamedLayers> made(new StreamedLayers(std::move(memory)));
  const DeviceMemory& device = made->memory_->device();
  const auto take = [](auto& to, auto from) -> Status {
    VSA_TRY(from.status());
    to = std::move(*from);
    return {};
  };
  VSA_TRY(take(made->stream_, device.make_stream()));
  VSA_TRY(take(made->begun_, device.make_event()));
  for (Slot& slot : made->slots_) {
    VSA_TRY(take(slot.array, made->memory_->array(layer_bytes)));
    VSA_TRY(take(slot.brought, device.make_event()));
    VSA_TRY(take(slot.read, device.make_event()));
  }
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    VSA_TRY(take(made->layers_.emplace_back(), device.make_pinned(layer_bytes)));
  }
  return made;
}

StreamedLayers::~StreamedLayers() {
  // A device that no longer answers says so in the next call that can report it.
  if (!stream_.empty()) static_cast<void>(stream_.wait());
}

std::unique_ptr<WeightPlace> StreamedLayers::place(int64_t layer) {
  return std::make_unique<Place>(slot_of(layer).array, layers_[static_cast<size_t>(layer)].data());
}

Status StreamedLayers::bring(int64_t layer) {
  if (layer >= std::ssize(layers_)) return {};
  const Slot& slot = slot_of(layer);
  VSA_TRY(stream_.copy_in(slot.array.data(), layers_[static_cast<size_t>(layer)], 0,
                          slot.array.size_bytes()));
  return stream_.record(slot.brought);
}

Status StreamedLayers::begin(int64_t layer) {
  const DeviceStream& computes = memory_->device().stream();
  if (layer == 0) {  // after all that read the slots before
    VSA_TRY(computes.record(begun_));
    VSA_TRY(stream_.wait_for(begun_));
    VSA_TRY(bring(0));
    VSA_TRY(bring(1));
  }
  return computes.wait_for(slot_of(layer).brought);
}

Status StreamedLayers::end(int64_t layer) {
  if (layer + 2 >= std::ssize(layers_)) return {};
  const Slot& slot = slot_of(layer);
  VSA_TRY(memory_->device().stream().record(slot.read));
  VSA_TRY(stream_.wait_for(slot.read));
  return bring(layer + 2);
}

}  // namespace vsa::device
