// One pass of the Wan video transformer: the order of its steps. Host-only.
#include "runtime/dit/transformer.h"

#include <fmt/format.h>

#include <chrono>

namespace vsa::dit {
namespace {

/// Milliseconds since the last call, or since construction.
class Lap {
 public:
  double ms() {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double, std::milli>(now - before_).count();
    before_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point before_ = std::chrono::steady_clock::now();
};

/// A layer with its times and counts, and a check of what it made.
Status run_and_check(int64_t layer, const ForwardArgs& args, Steps& steps, LayerStats& stats) {
  Lap lap;
  VSA_TRY(steps.project(layer));
  stats.qkv_ms += lap.ms();

  const int64_t num_tiles = steps.plan().num_tiles();
  int64_t kept = 0;
  VSA_TRY(steps.attend_self(layer, args.topk[static_cast<size_t>(layer)], &kept));
  stats.kept_tiles += kept;
  stats.all_tiles += steps.config().num_heads * num_tiles * num_tiles;
  stats.attention_ms += lap.ms();

  VSA_TRY(steps.attend_text(layer, *args.text));
  stats.cross_ms += lap.ms();
  VSA_TRY(steps.feed_forward(layer));
  const Result<bool> finite = steps.finite();
  stats.ffn_ms += lap.ms();
  VSA_TRY(finite.status());
  if (!*finite) {
    return Status(StatusCode::kInternal,
                  fmt::format("layer {}: expected finite values, got NaN or infinity", layer));
  }
  return {};
}

Status check_not_cancelled(int64_t layer, const ForwardArgs& args) {
  if (args.cancel == nullptr || !*args.cancel) return {};
  return Status(StatusCode::kCancelled, fmt::format("layer {}: cancelled", layer));
}

Status run_each(const ForwardArgs& args, Steps& steps, std::span<LayerStats> stats) {
  for (int64_t layer = 0; layer < steps.config().num_layers; ++layer) {
    VSA_TRY(check_not_cancelled(layer, args));
    VSA_TRY(run_and_check(layer, args, steps, stats[static_cast<size_t>(layer)]));
    if (args.on_layer) args.on_layer();
  }
  return steps.end(args.velocity);
}

Status run_at_once(const ForwardArgs& args, Steps& steps) {
  const int64_t num_layers = steps.config().num_layers;
  const auto all_layers = [&]() -> Status {
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      VSA_TRY(steps.project(layer));
      VSA_TRY(steps.attend_self(layer, args.topk[static_cast<size_t>(layer)], nullptr));
      VSA_TRY(steps.attend_text(layer, *args.text));
      VSA_TRY(steps.feed_forward(layer));
    }
    return {};
  };
  VSA_TRY(steps.run_layers(args.topk, *args.text, all_layers));
  VSA_TRY(steps.end(args.velocity));
  for (int64_t layer = 0; args.on_layer && layer < num_layers; ++layer) args.on_layer();
  return {};
}

}  // namespace

Status forward(const ForwardArgs& args, Steps& steps, std::span<LayerStats> stats) {
  VSA_TRY(steps.begin(args.latents, args.timestep));
  if (!stats.empty()) return run_each(args, steps, stats);
  VSA_TRY(check_not_cancelled(0, args));
  return run_at_once(args, steps);
}

}  // namespace vsa::dit
