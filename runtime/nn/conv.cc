// Convolutions over frames, rows and columns in f32, on oneDNN, channels last. Host-only.
#include "runtime/nn/conv.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/io/mmap.h"
#include "runtime/nn/buffer.h"
#include "runtime/nn/convert.h"
#include "runtime/nn/onednn.h"
#include "runtime/nn/weight_change.h"

namespace vsa::nn {
namespace {

using dnnl::memory;
constexpr auto kF32 = memory::data_type::f32;

dnnl::primitive_attr attributes(Into into) {
  dnnl::post_ops ops;
  if (into == Into::kAdd) ops.append_sum(1.0F);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // or every primitive would keep its own
  return attr;
}

memory::desc channels_last(int64_t channels, int64_t frames, int64_t height, int64_t width) {
  return {{1, channels, frames, height, width}, kF32, memory::format_tag::ndhwc};
}

}  // namespace

struct Conv::State {
  ConvStride stride;
  Weight weight;
  int64_t out = 0, in = 0;
  int64_t kernel_frames = 1, kernel_height = 1, kernel_width = 1;
  Buffer bias_values;
  memory bias;

  // The weight in the order that the last shape wanted. oneDNN chooses an order by the shape, and
  // with another one takes a loop that is a hundred times slower.
  memory::desc order;
  Buffer packed;

  struct Ready {
    dnnl::convolution_forward primitive;
    memory::desc x, y, order, scratchpad;
  };
  std::map<std::pair<ConvShape, Into>, Ready> by_shape;

  const Ready& ready(const ConvShape& shape, Into into);
  void pack(const memory::desc& wanted);
};

const Conv::State::Ready& Conv::State::ready(const ConvShape& shape, Into into) {
  const auto found = by_shape.find({shape, into});
  if (found != by_shape.end()) return found->second;
  const auto extent = [](int64_t padded, int64_t kernel, int64_t step) {
    return (padded - kernel) / step + 1;
  };
  const memory::desc x = channels_last(in, shape.frames, shape.height, shape.width);
  const memory::desc y =
      channels_last(out, extent(shape.frames + shape.front, kernel_frames, stride.frames),
                    extent(shape.height + shape.top + shape.bottom, kernel_height, stride.edges),
                    extent(shape.width + shape.left + shape.right, kernel_width, stride.edges));
  const memory::desc any{
      {out, in, kernel_frames, kernel_height, kernel_width}, kF32, memory::format_tag::any};
  const dnnl::convolution_forward::desc op(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x, any,
      bias.get_desc(), y, {stride.frames, stride.edges, stride.edges},
      {shape.front, shape.top, shape.left}, {0, shape.bottom, shape.right});
  const dnnl::convolution_forward::primitive_desc description(op, attributes(into), cpu_engine());
  return by_shape
      .emplace(std::pair{shape, into}, Ready{.primitive = dnnl::convolution_forward(description),
                                             .x = x,
                                             .y = y,
                                             .order = description.weights_desc(),
                                             .scratchpad = description.scratchpad_desc()})
      .first->second;
}

void Conv::State::pack(const memory::desc& wanted) {
  if (packed.size() > 0 && order == wanted) return;
  packed = Buffer();  // frees the old memory before the new is taken
  packed = Buffer(floats_of(wanted));
  order = wanted;
  const ChangedWeight used = changed(weight);
  Buffer plain(weight.num_elements());
  widen_parallel(used.weight.type, used.weight.bytes.data(), plain.size(), used.weight.scale,
                 plain.data());
  memory from(
      {{out, in, kernel_frames, kernel_height, kernel_width}, kF32, memory::format_tag::oidhw},
      cpu_engine(), plain.data());
  memory to(order, cpu_engine(), packed.data());
  dnnl::stream stream(cpu_engine());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  if (weight.in_file) io::release_pages(weight.bytes);
}

Conv::Conv(const Weight& weight, const Weight& bias, ConvStride stride) {
  if (weight.empty()) return;
  state_ = std::make_shared<State>();
  State& state = *state_;
  state.stride = stride;
  state.weight = weight;
  state.out = weight.shape[0];
  state.in = weight.shape[1];
  const size_t edges = weight.shape.size() - 2;
  state.kernel_frames = weight.shape.size() == 5 ? weight.shape[2] : 1;
  state.kernel_height = weight.shape[edges];
  state.kernel_width = weight.shape[edges + 1];
  state.bias_values = Buffer(state.out);
  std::ranges::copy(values(bias), state.bias_values.data());
  state.bias =
      memory({{state.out}, kF32, memory::format_tag::a}, cpu_engine(), state.bias_values.data());
}

void Conv::forward(const ConvShape& shape, const float* x, float* y, Into into) const {
  const State::Ready& ready = state_->ready(shape, into);
  const auto argument = [](const memory::desc& desc, const float* data) {
    return memory(desc, cpu_engine(), const_cast<float*>(data));  // only y is written
  };
  state_->pack(ready.order);
  dnnl::stream stream(cpu_engine());
  ready.primitive.execute(stream,
                          {{DNNL_ARG_SRC, argument(ready.x, x)},
                           {DNNL_ARG_WEIGHTS, argument(state_->order, state_->packed.data())},
                           {DNNL_ARG_BIAS, state_->bias},
                           {DNNL_ARG_DST, argument(ready.y, y)},
                           {DNNL_ARG_SCRATCHPAD, scratchpad(ready.scratchpad)}});
  stream.wait();
}

}  // namespace vsa::nn
