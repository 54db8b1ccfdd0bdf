// The buffers of the decoder on a device and the calls on them. Host-only.
#include "runtime/vae/device/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "vsa/upsample.h"

namespace vsa::vae::device {
namespace {

constexpr int64_t kAlignment = 256;  // of what History hands out

ConstTensor channel_vector(const void* data, int64_t channels) {
  if (data == nullptr) return {};
  return ConstTensor::bshd(data, DType::kF32, {.head_dim = channels});
}

}  // namespace

void* History::take(int64_t bytes) {
  const int64_t at = taken_bytes_;
  taken_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (memory_.empty()) return nullptr;
  return static_cast<std::byte*>(memory_.data()) + at;
}

Result<Work> Work::make(std::shared_ptr<Memory> memory, const WorkBytes& bytes) {
  Work work(memory->token_dtype());
  work.needed_ = bytes;
  const auto take = [&](Array& to, int64_t size) -> Status {
    if (size == 0) return {};
    Result<Array> array = memory->array(size);
    VSA_TRY(array.status());
    to = std::move(*array);
    return {};
  };
  VSA_TRY(take(work.x_, bytes.x));
  VSA_TRY(take(work.t_, bytes.x));
  VSA_TRY(take(work.p_, bytes.p));
  VSA_TRY(take(work.scratch_, bytes.scratch));
  work.memory_ = std::move(memory);
  return work;
}

Status Work::need(const Array& buffer, int64_t bytes, int64_t& most) {
  if (only_counts()) {
    most = std::max(most, bytes);
  } else if (bytes > buffer.size_bytes()) {
    return {StatusCode::kInternal, "[decode] a buffer is smaller than was counted"};
  }
  return {};
}

Status Work::need_x(const Held& held, int64_t num_frames) {
  return need(x_, token_bytes(num_frames * held.pixels() * held.channels), needed_.x);
}

void Work::swap_x_and_t() {
  std::swap(x_, t_);
  std::swap(x, t);
}

Tensor Work::view(const Array& buffer, const Held& held, Rows rows) const {
  Tensor view;
  const int64_t row = held.width * held.channels;
  view.data =
      static_cast<std::byte*>(buffer.data()) + token_bytes((rows.begin - held.rows.begin) * row);
  view.dtype = token_;
  view.shape = {1, frames, rows.size() * held.width, held.channels};
  view.stride = {frames * held.rows.size() * row, held.rows.size() * row, held.channels, 1};
  return view;
}

Tensor Work::packed(const Array& buffer, int64_t first_frame, int64_t num_frames,
                    const Held& held) const {
  return Tensor::bhsd(
      static_cast<std::byte*>(buffer.data()) +
          token_bytes(first_frame * held.pixels() * held.channels),
      token_, {.num_heads = num_frames, .seq_len = held.pixels(), .head_dim = held.channels});
}

Status Work::call_conv3d(const Conv3dArgs& args) {
  const auto elements = [](const ConstTensor& of) {
    return static_cast<double>(of.num_elements());
  };
  const auto taps = static_cast<double>(args.weight.shape[2] * args.weight.shape[3]);
  const std::string kind = fmt::format("conv3d {} to {}", args.x.shape[3], args.out.shape[3]);
  return call({.kind = kind.c_str(),
               .flops = 2.0 * elements(args.out) * taps,
               .bytes = static_cast<double>(size_bytes(token_)) *
                        (elements(args.x) + elements(args.weight) + elements(args.out))},
              vsa::conv3d, args);
}

Status Work::bring(const float* rows, int64_t num_frames, const Held& what, int64_t frame_stride) {
  frames = num_frames;
  t = what;
  has_x = false;
  bias = nullptr;
  VSA_TRY(need_x(t, frames));
  if (only_counts()) return {};
  const int64_t floats = t.pixels() * t.channels;
  for (int64_t f = 0; f < frames; ++f) {
    VSA_TRY(memory_->copy_in_rounded(static_cast<std::byte*>(t_.data()) + token_bytes(f * floats),
                                     token_,
                                     {rows + f * frame_stride, static_cast<size_t>(floats)}));
  }
  return {};
}

Status Work::pass(const Pass& pass) {
  const bool adds = pass.of_value && has_x;
  const bool stores = adds || pass.store;
  if (pass.store && !adds) {
    x = {.rows = pass.rows, .width = t.width, .channels = t.channels};
    VSA_TRY(need_x(x, frames));
  }
  const Held to{.rows = pass.rows, .width = t.width, .channels = t.channels};
  const int64_t bytes = pass.channels_f32 > 0
                            ? frames * to.pixels() * pass.channels_f32 * size_bytes(DType::kF32)
                            : token_bytes((frames + pass.behind) * to.pixels() * to.channels);
  if (pass.to_p) VSA_TRY(need(p_, bytes, needed_.p));
  const void* const added = pass.of_value ? bias : pass.t_bias;
  if (pass.of_value && stores) has_x = true;
  if (only_counts()) return {};
  PixelNormArgs args{.y = view(t_, t, pass.rows),
                     .bias = channel_vector(added, t.channels),
                     .residual = adds ? Residual::kAdd : Residual::kReplace,
                     .gamma = channel_vector(pass.gamma, t.channels),
                     .activation = pass.activation};
  if (stores) args.x = view(x_, x, pass.rows);
  if (pass.to_p && pass.channels_f32 > 0) {
    args.out =
        Tensor::bhsd(p_.data(), DType::kF32,
                     {.num_heads = frames, .seq_len = to.pixels(), .head_dim = pass.channels_f32});
  } else if (pass.to_p) {
    args.out = packed(p_, pass.behind, frames, to);
  }
  return call({.kind = "pixel_norm"}, vsa::pixel_norm, args);
}

Status Work::convolve(const DeviceConv& weights, const ConvShape& shape, Rows rows,
                      History& history, void*& kept) {
  const int64_t behind = shape.frames - 1;
  const Held in{.rows = rows, .width = t.width, .channels = shape.in};
  const int64_t kept_bytes = token_bytes(behind * in.pixels() * in.channels);
  const bool first = kept == nullptr;
  if (behind > 0 && first) kept = history.take(kept_bytes);
  t = {.rows = rows, .width = in.width, .channels = shape.out};
  VSA_TRY(need_x(t, frames));
  if (only_counts()) return {};
  const auto copy = [&](const Tensor& from, const Tensor& to) {
    return call({.kind = "pixel_norm"}, vsa::pixel_norm, {.y = from, .out = to});
  };
  const Tensor kept_frames = Tensor::bhsd(
      kept, token_, {.num_heads = behind, .seq_len = in.pixels(), .head_dim = in.channels});
  if (behind > 0) VSA_TRY(copy(kept_frames, packed(p_, 0, behind, in)));
  VSA_TRY(call_conv3d({.x = packed(p_, 0, frames + behind, in),
                       .weight = Tensor::bhsd(weights.weight.data(), token_,
                                              {.num_heads = shape.out,
                                               .seq_len = shape.frames * shape.edge * shape.edge,
                                               .head_dim = shape.in}),
                       .height = rows.size(),
                       .kernel_frames = shape.frames,
                       .kernel_edge = shape.edge,
                       .out = packed(t_, 0, frames, t)}));
  return behind > 0 ? copy(packed(p_, frames, behind, in), kept_frames) : Status();
}

Status Work::double_edges(const DeviceConv& weights, const ConvShape& shape, bool from_t,
                          const void* t_bias) {
  const Held from = from_t ? t : x;
  const int64_t each = from.channels / shape.in;  // frames that a frame becomes
  const Held doubled{.rows = {2 * from.rows.begin, 2 * from.rows.end},
                     .width = 2 * from.width,
                     .channels = shape.in};
  const Held to{.rows = doubled.rows, .width = doubled.width, .channels = shape.out};
  const int64_t piece = token_bytes(each * doubled.pixels() * doubled.channels);
  VSA_TRY(need_x(to, frames * each));
  VSA_TRY(need(p_, piece, needed_.p));
  const Array& source = from_t ? t_ : x_;
  const Array& target = from_t ? x_ : t_;
  // As many frames at a time as p holds.
  const int64_t at_once = only_counts() ? frames : p_.size_bytes() / piece;
  for (int64_t f = 0; f < frames && !only_counts(); f += at_once) {
    const int64_t count = std::min(at_once, frames - f);
    VSA_TRY(call({.kind = "upsample"}, vsa::upsample,
                 {.x = packed(source, f, count, from),
                  .bias = channel_vector(t_bias, from.channels),
                  .height = from.rows.size(),
                  .frames_each = each,
                  .out = packed(p_, 0, count * each, doubled)}));
    VSA_TRY(call_conv3d(
        {.x = packed(p_, 0, count * each, doubled),
         .weight = Tensor::bhsd(
             weights.weight.data(), token_,
             {.num_heads = shape.out, .seq_len = shape.edge * shape.edge, .head_dim = shape.in}),
         .height = doubled.rows.size(),
         .kernel_frames = 1,
         .kernel_edge = shape.edge,
         .out = packed(target, f * each, count * each, to)}));
  }
  if (from_t) swap_x_and_t();
  t = to;
  frames *= each;
  has_x = false;
  return {};
}

}  // namespace vsa::vae::device
