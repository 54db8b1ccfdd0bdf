// The buffers of the decoder on a device and the calls on them, or only how large they must be.
// Host-only.
//
// Three buffers, channels last, of the token dtype. What a layer makes is not summed up at once:
//
//   the value between two layers = t + bias (+ x)
//
// t is what the last convolution or product made, bias its bias, and x the residual. The pass that
// reads the value for the next convolution also stores it in x, where the layer goes on with it:
//
//   pass         x = t + bias (+ x);  p = silu(norm(x)), behind the frames that are kept
//   convolve     p -> t
//
// A buffer may hold more rows than are right: a convolution pads rows of a stripe with zeros also
// where the frame goes on, and the next pass reads only those that did not see them.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "runtime/device/memory.h"
#include "runtime/vae/parts.h"
#include "vsa/conv3d.h"
#include "vsa/pixel_norm.h"

namespace vsa::vae::device {

using vsa::device::Array;
using vsa::device::Memory;

/// The weights of a convolution in a device's memory.
struct DeviceConv {
  Array weight;  ///< [out, frames * edge^2, in] of the token dtype
  Array bias;    ///< f32 [out]
};
/// The extents of a convolution.
struct ConvShape {
  int64_t in = 0, out = 0;
  int64_t frames = 3, edge = 3;  ///< of the kernel
};

/// The weights of a product: [out, in] and [out], of the token dtype.
struct DeviceLinear {
  Array weight, bias;
};
struct LinearShape {
  int64_t in = 0, out = 0;
};

/// Memory of a part for the frames that its convolutions keep, in the order in which they first ask
/// for it: one piece, freed with the part.
class History {
 public:
  History() = default;
  explicit History(Array memory) : memory_(std::move(memory)) {}
  /// The next so many bytes; null without memory.
  void* take(int64_t bytes);
  int64_t taken_bytes() const { return taken_bytes_; }

 private:
  Array memory_;
  int64_t taken_bytes_ = 0;
};

/// How many bytes the buffers need at least.
struct WorkBytes {
  int64_t x = 0;  ///< and as many for t
  int64_t p = 0;
  int64_t scratch = 0;  ///< of the attention
};

/// Frames of rows in a buffer.
struct Held {
  Rows rows;
  int64_t width = 0, channels = 0;
  int64_t pixels() const { return rows.size() * width; }
};

class Work {
 public:
  /// Counts and computes nothing: needed() says what the calls would have needed.
  explicit Work(DType token) : token_(token) {}
  /// Computes in buffers of that size.
  static Result<Work> make(std::shared_ptr<Memory> memory, const WorkBytes& bytes);

  const WorkBytes& needed() const { return needed_; }
  bool only_counts() const { return memory_ == nullptr; }
  Memory& memory() const { return *memory_; }
  DType token() const { return token_; }
  int64_t token_bytes(int64_t elements) const { return elements * size_bytes(token_); }

  int64_t frames = 0;          ///< of the value
  Held x, t;                   ///< what the buffers hold
  bool has_x = false;          ///< x is part of the value
  const void* bias = nullptr;  ///< of t, f32; null: none

  /// t = frames from host memory, f32 [num_frames, rows, width, channels].
  Status bring(const float* rows, int64_t num_frames, const Held& what, int64_t frame_stride);

  struct Pass {
    Rows rows;
    /// The whole value, which x stores if it is part of it. Otherwise t alone, with `t_bias`.
    bool of_value = true;
    bool store = false;  ///< x becomes the value in any case
    const void* t_bias = nullptr;
    const void* gamma = nullptr;  ///< f32; null: no norm
    Activation activation = Activation::kNone;
    bool to_p = true;
    int64_t behind = 0;        ///< frames of p in front
    int64_t channels_f32 = 0;  ///< p gets these channels in f32; 0: all, of the token dtype
  };
  Status pass(const Pass& pass);

  /// t = the convolution of p, which holds `rows` of the frames behind those that are kept.
  /// @param kept  where they are; null at first
  Status convolve(const DeviceConv& weights, const ConvShape& shape, Rows rows, History& history,
                  void*& kept);

  /// The frames' edges are doubled, and their number, if each pixel of t holds two; then a
  /// convolution of 3x3.
  /// @param from_t  t is read, with its bias; otherwise x
  Status double_edges(const DeviceConv& weights, const ConvShape& shape, bool from_t,
                      const void* t_bias);

  /// t = the product of t, or of x.
  Status multiply(const DeviceLinear& weights, const LinearShape& shape, bool of_x);

  struct AttentionWeights {
    const DeviceLinear& q;
    const DeviceLinear& k;
    const DeviceLinear& v;
    const DeviceLinear& out;
  };
  /// t = the projected attention of p, whole frames, within each of them.
  Status attend(const AttentionWeights& weights);

  void swap_x_and_t();

  /// Where the last pass left its channels in f32.
  const void* p_data() const { return p_.data(); }

 private:
  template <class Args>
  Status call(const vsa::device::Call& what, Status (*stage)(const Context&, const Args&),
              const std::type_identity_t<Args>& args) {
    return memory_->call(what, [&](const Context& context) { return stage(context, args); });
  }
  /// One conv3d, which counts by its channels.
  Status call_conv3d(const Conv3dArgs& args);
  Status need_x(const Held& held, int64_t num_frames);
  Status need(const Array& buffer, int64_t bytes, int64_t& most);
  Tensor view(const Array& buffer, const Held& held, Rows rows) const;
  Tensor packed(const Array& buffer, int64_t first_frame, int64_t num_frames,
                const Held& held) const;
  Status attend_frame(const AttentionWeights& weights, int64_t frame);

  std::shared_ptr<Memory> memory_;  // null: only counts
  DType token_;
  WorkBytes needed_;
  Array x_, t_, p_, scratch_;
};

}  // namespace vsa::vae::device
