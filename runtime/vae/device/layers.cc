// The layers of the decoder on a device. Host-only.
#include "runtime/vae/device/layers.h"

#include <fmt/format.h>

#include <algorithm>

namespace vsa::vae::device {
namespace {

constexpr int64_t kKept = 2;  // frames that a convolution over three frames keeps

Status run_pointwise(Work& work, const LayerRun& run) {
  if (work.has_x || work.bias != nullptr) {
    return {StatusCode::kInternal, "[decode] a product is expected to come first"};
  }
  return work.multiply(run.weights.linear, {.in = run.layer.in, .out = run.layer.out}, false);
}

/// kConv, and kHead with its norm.
Status run_convolution(Work& work, const LayerRun& run) {
  const bool norms = run.layer.kind == LayerKind::kHead;
  VSA_TRY(work.pass({.rows = run.shape.in,
                     .gamma = norms ? run.weights.norm.data() : nullptr,
                     .activation = norms ? Activation::kSilu : Activation::kNone,
                     .behind = kKept}));
  VSA_TRY(work.convolve(run.weights.conv, conv_shape(run.layer), run.shape.in, run.history,
                        run.kept.conv));
  work.bias = run.weights.conv.bias.data();
  work.has_x = false;
  return {};
}

Status run_residual(Work& work, const LayerRun& run) {
  const auto& [in, out] = std::pair(run.shape.in, run.shape.out);
  // Rows that the first convolution makes right.
  const Rows middle{std::max(in.begin, out.begin - 1), std::min(in.end, out.end + 1)};
  VSA_TRY(work.pass({.rows = in,
                     .store = true,
                     .gamma = run.weights.norm.data(),
                     .activation = Activation::kSilu,
                     .behind = kKept}));
  VSA_TRY(work.convolve(run.weights.conv, conv_shape(run.layer), in, run.history, run.kept.conv));
  VSA_TRY(work.pass({.rows = middle,
                     .of_value = false,
                     .t_bias = run.weights.conv.bias.data(),
                     .gamma = run.weights.norm2.data(),
                     .activation = Activation::kSilu,
                     .behind = kKept}));
  if (run.layer.in != run.layer.out) {  // the residual is a product of x
    VSA_TRY(work.multiply(run.weights.linear, {.in = run.layer.in, .out = run.layer.out}, true));
    work.swap_x_and_t();
  }
  VSA_TRY(work.convolve(run.weights.conv2, conv2_shape(run.layer), middle, run.history,
                        run.kept.conv2));
  work.bias = run.weights.conv2.bias.data();
  work.has_x = true;
  return {};
}

Status run_attention(Work& work, const LayerRun& run) {
  VSA_TRY(work.pass({.rows = run.shape.in, .store = true, .gamma = run.weights.norm.data()}));
  VSA_TRY(work.attend(
      {.q = run.weights.q, .k = run.weights.k, .v = run.weights.v, .out = run.weights.linear}));
  work.bias = nullptr;  // the products added theirs
  work.has_x = true;
  return {};
}

Status run_upsample(Work& work, const LayerRun& run) {
  const ConvShape conv = conv_shape(run.layer);
  // The first frame is not doubled, and the convolution over time does not process it.
  if (run.layer.temporal && !run.first_chunk) {
    VSA_TRY(work.pass({.rows = run.shape.in, .behind = kKept}));
    VSA_TRY(work.convolve(run.weights.conv2, conv2_shape(run.layer), run.shape.in, run.history,
                          run.kept.conv2));
    VSA_TRY(work.double_edges(run.weights.conv, conv, true, run.weights.conv2.bias.data()));
  } else {
    VSA_TRY(work.pass({.rows = run.shape.in, .store = true, .to_p = false}));
    VSA_TRY(work.double_edges(run.weights.conv, conv, false, nullptr));
  }
  work.bias = run.weights.conv.bias.data();
  return {};
}

}  // namespace

ConvShape conv_shape(const Layer& layer) {
  const bool over_frames = layer.kind != LayerKind::kUpsample;
  return {.in = layer.in, .out = padded_channels(layer.out), .frames = over_frames ? 3 : 1};
}

ConvShape conv2_shape(const Layer& layer) {
  if (layer.kind == LayerKind::kUpsample) return {.in = layer.in, .out = 2 * layer.in, .edge = 1};
  return {.in = layer.out, .out = layer.out};
}

Status check_network(const Network& network) {
  for (const Layer& layer : network.layers) {
    const bool known = layer.kind != LayerKind::kDownsample;
    const bool padded = layer.kind == LayerKind::kHead;
    if (known && layer.in % kChannelStep == 0 && (padded || layer.out % kChannelStep == 0)) {
      continue;
    }
    return unsupported(fmt::format(
        "[load] {}: expected a layer of the decoder with channels in multiples of {} on a device, "
        "got {} to {}",
        layer.name, kChannelStep, layer.in, layer.out));
  }
  return {};
}

Status run_layer(Work& work, const LayerRun& run) {
  switch (run.layer.kind) {
    case LayerKind::kPointwise:
      return run_pointwise(work, run);
    case LayerKind::kConv:
    case LayerKind::kHead:
      return run_convolution(work, run);
    case LayerKind::kResidual:
      return run_residual(work, run);
    case LayerKind::kAttention:
      return run_attention(work, run);
    case LayerKind::kUpsample:
      return run_upsample(work, run);
    case LayerKind::kDownsample:
      break;
  }
  return {StatusCode::kInternal, "[decode] " + run.layer.name + " is not part of a decoder"};
}

}  // namespace vsa::vae::device
