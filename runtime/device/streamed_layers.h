// The weights of a model's layers in pinned host memory, from where they come to the device while
// it computes: for models that the device's memory does not hold. Host-only.
//
//   pinned memory, all layers --(a stream of its own)--> slot 0: layers 0, 2, 4 ...
//                                                        slot 1: layers 1, 3, 5 ...
//
// While one slot is read, the other one is filled. A pass brings every layer once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/memory.h"
#include "runtime/device/weight_place.h"

namespace vsa::device {

/// Used from one thread at a time. Its calls may be captured.
class StreamedLayers {
 public:
  /// What arrays of a layer begin at multiples of.
  static constexpr int64_t kAlignment = 256;

  /// @param layer_bytes  of all arrays of a layer, each rounded up to kAlignment
  /// @return OutOfMemory | DeviceError
  static Result<std::unique_ptr<StreamedLayers>> make(std::shared_ptr<Memory> memory,
                                                      int64_t num_layers, int64_t layer_bytes);
  /// Waits for the copies.
  ~StreamedLayers();
  StreamedLayers(const StreamedLayers&) = delete;
  StreamedLayers& operator=(const StreamedLayers&) = delete;

  /// Takes the weights of a layer. Its arrays are where the layer is from begin to end.
  std::unique_ptr<WeightPlace> place(int64_t layer);

  /// What is enqueued from now on may read the layer. Layers come in their order, from 0 on.
  Status begin(int64_t layer);
  /// What was enqueued until now was the last to read it.
  Status end(int64_t layer);

 private:
  struct Slot {
    Array array;
    DeviceEvent brought, read;
  };
  class Place;
  explicit StreamedLayers(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  Slot& slot_of(int64_t layer) { return slots_[static_cast<size_t>(layer % 2)]; }
  Status bring(int64_t layer);

  std::shared_ptr<Memory> memory_;
  DeviceStream stream_;
  DeviceEvent begun_;
  std::array<Slot, 2> slots_;
  std::vector<PinnedMemory> layers_;
};

}  // namespace vsa::device
