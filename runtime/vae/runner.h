// Runs the parts of a network over the chunks of a video, layer by layer. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/vae/split.h"
#include "runtime/vae/steps.h"
#include "vsa/status.h"

namespace vsa::vae {

/// How a run is stopped, and how it reports its progress.
struct RunControl {
  const std::atomic<bool>* cancel = nullptr;  ///< looked at before every layer; may be null
  /// After every layer of a part, with the number that are done (or enqueued, on a device) and that
  /// there will be; may be empty. Those of the first chunk take less time than the others.
  std::function<void(int64_t done, int64_t all)> on_layer;
};

/// One video's way through a network.
class Runner {
 public:
  struct Video {
    std::vector<Chunk> chunks;
    int64_t height = 0, width = 0;  ///< of the network's input
    int64_t stripes = 1;
  };
  /// @param operation  how messages name it: "decode", "encode"
  /// @return errors of Model::make_steps
  static Result<Runner> make(std::string_view operation, Model& model, const Video& video,
                             RunControl control);

  /// By cut_into_parts, in the order they run.
  int64_t num_parts() const { return std::ssize(parts_); }

  /// A part's next chunk.
  /// @param frames  [num_frames, height, width, channels] of the part's input, whole frames
  /// @param out     whole frames, of which the part's rows are written
  /// @return Cancelled | Internal (a non-finite value, names the layer) | errors of the steps
  Status run(int64_t part, const float* frames, int64_t num_frames, float* out);

  /// The part has processed its last chunk: the frames that it keeps may be freed.
  void finish(int64_t part) { steps_->finish(part); }

 private:
  /// Ok if the steps say that what they made last is finite.
  Status check_finite(int64_t layer, int64_t chunk);

  std::string_view operation_;
  const Network* network_ = nullptr;
  bool enqueues_ = false;  // the model
  std::vector<Part> parts_;
  std::vector<int64_t> chunks_done_;  // of each part
  std::unique_ptr<Steps> steps_;
  RunControl control_;
  int64_t layers_done_ = 0, all_layers_ = 0;
};

/// All chunks of a video of that many latent frames.
std::vector<Chunk> all_chunks(int64_t latents, Split split, int64_t temporal_factor);

}  // namespace vsa::vae
