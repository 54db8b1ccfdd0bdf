// What a device does for a Wan transformer: the steps of a pass as an interface. Host-only.
//
//   latents --begin--> x --+-project------> q, k, v, gate
//                          |                   | attend_self
//   each layer:            |<-attend_text----- attn
//                          |--feed_forward--> x
//                          `----end----> velocity
//
// x, q, k, v, gate and attn are tensors in the device's memory, which the implementation owns, and
// x stays in f32 wherever it is added to. A device may enqueue a step and return; what hands
// numbers to the host waits. dit/cpu/ is the implementation for the CPU; transformer.h calls the
// steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/dit/config.h"
#include "runtime/text/text_embedding.h"
#include "vsa/status.h"
#include "vsa/tiling.h"

namespace vsa::dit {

/// A prompt as all layers of one device read it: keys and values, which do not depend on the
/// timestep.
class TextContext {
 public:
  virtual ~TextContext() = default;
};

/// The tensors of one video on one device, and the steps over them; for one pass at a time.
/// Errors beside those that are named: OutOfMemory, DeviceError.
class Steps {
 public:
  virtual ~Steps() = default;

  virtual const WanConfig& config() const = 0;
  /// Of the rows, which are in raster order if the plan has cuboids, else in the order of its tiles
  /// (token_rows.h).
  virtual const TilePlan& plan() const = 0;

  /// x = the patches of the latents, embedded; and the modulation of all layers.
  /// @param latents   [in_channels, F, H, W] = grid times patch, host memory; not read after the
  /// call
  /// @param timestep  0 to 1000
  virtual Status begin(const float* latents, float timestep) = 0;

  /// q, k, v, gate = projections of norm(x), modulated; q and k normalised over all heads and
  /// turned by RoPE.
  virtual Status project(int64_t layer) = 0;

  /// attn = fine + gate * coarse, through libvsa.
  /// @param topk  kv tiles kept for a query tile; plan().num_tiles() is dense
  /// @param kept  receives how many tiles were kept over all heads and query tiles, counted in the
  ///              selection that ran. If it is null, nothing is counted or waited for
  /// @return errors of attention_forward, unchanged
  virtual Status attend_self(int64_t layer, int64_t topk, int64_t* kept) = 0;

  /// x += gate1 * out(attn); x += attention of norm(x) to the text.
  /// @param text  made by the same Model
  virtual Status attend_text(int64_t layer, const TextContext& text) = 0;

  /// x += gate2 * feed-forward of norm(x), modulated.
  virtual Status feed_forward(int64_t layer) = 0;

  /// Runs `enqueue`, which calls the three steps above for every layer without counting or waiting,
  /// or else enqueues again what it enqueued before for the same `topk` and `text`.
  /// @param topk  of each layer
  virtual Status run_layers(std::span<const int64_t> topk, const TextContext& text,
                            const std::function<Status()>& enqueue) = 0;

  /// Whether all of x is finite after the last feed_forward; waits for it.
  virtual Result<bool> finite() = 0;

  /// velocity = the head's projection of norm(x), modulated, out of its patches.
  /// @param velocity  [out_channels, F, H, W], host memory, whole after the call
  virtual Status end(float* velocity) = 0;

  /// Copies x to the host, for tests and for finding the step that computed a wrong number; its
  /// rows are in the order of plan().
  /// @param x  [num_tokens, width]
  virtual Status read_residual(std::span<float> x) = 0;
};

/// A transformer whose weights are where a device multiplies with them. Steps and texts of one
/// model are used from one thread at a time, and not after it is gone.
class Model {
 public:
  virtual ~Model() = default;

  virtual const WanConfig& config() const = 0;

  /// Whether steps only enqueue their work. A pass is then checked as a whole: to look at each
  /// layer, the host would wait for it and read what it made.
  virtual bool enqueues() const = 0;

  /// The most bytes of the device's memory that were taken until now; 0: the model is on the host.
  virtual int64_t most_device_bytes() const { return 0; }

  /// @param text  host memory; not read after the call
  virtual Result<std::unique_ptr<TextContext>> prepare_text(const text::TextEmbedding& text) = 0;

  /// Memory and tables for videos of one size.
  /// @param plan  of `grid` in raster order
  virtual Result<std::unique_ptr<Steps>> make_steps(Grid grid, TilePlan plan) = 0;
};

}  // namespace vsa::dit
