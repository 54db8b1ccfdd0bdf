// What a device does for the VAE: the layers of a network over the parts of a video. Host-only.
//
//   frames --begin--> x --run--> x --run--> x ... --end--> frames
//
// x is in the device's memory, which the implementation owns, as is what the convolutions of every
// part keep of the frames before. A device may enqueue a step and return; what hands numbers to the
// host waits. vae/cpu/ is the implementation for the CPU; runner.h calls the steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/vae/layers.h"
#include "runtime/vae/parts.h"
#include "vsa/status.h"

namespace vsa::vae {

/// The parts of one video on one device; for one chunk of frames at a time. Errors: OutOfMemory,
/// DeviceError.
class Steps {
 public:
  virtual ~Steps() = default;

  /// x = the rows that the part's first layer reads, of the video's next frames. Each part sees all
  /// chunks of the video in order; the first chunk is the first frame alone.
  /// @param frames  [num_frames, height_in, width_in, in] f32, whole frames, host memory, free
  ///                after the call
  virtual Status begin(int64_t part, const float* frames, int64_t num_frames) = 0;

  /// x = the layer of x.
  /// @param layer  of the network; the part's layers in order
  virtual Status run(int64_t layer) = 0;

  /// Whether all of x is finite after the last run; waits for it. Of a model that enqueues, whether
  /// all that the last end() gave was finite.
  virtual Result<bool> finite() = 0;

  /// The rows that the part's last layer made.
  /// @param frames  [frames of x, height_out, width_out, out], whole frames of which the part's
  ///                rows are written; host memory, there after the call
  virtual Status end(float* frames) = 0;

  /// The part has processed its last chunk: the frames that it keeps may be freed.
  virtual void finish(int64_t part) = 0;
};

/// A network whose weights are where a device multiplies with them. Steps of one model are used
/// from one thread at a time, and not after it is gone.
class Model {
 public:
  virtual ~Model() = default;

  virtual const VaeConfig& config() const = 0;
  virtual const Network& network() const = 0;

  /// Whether steps only enqueue, so that nothing is looked at between them.
  virtual bool enqueues() const { return false; }

  /// Memory for videos of one size.
  /// @param parts       of this network, by cut_into_parts
  /// @param num_frames  most that a chunk has behind the first, which has one; 0 if there is none
  virtual Result<std::unique_ptr<Steps>> make_steps(std::vector<Part> parts,
                                                    int64_t num_frames) = 0;
};

}  // namespace vsa::vae
