// Memory of a whole transformer: the bytes of its file, and the weights of one step in f32.
#include <gtest/gtest.h>

#include <numeric>

#include "runtime/dit/cpu/model.h"
#include "runtime/dit/transformer.h"
#include "tests/runtime_support/process_memory.h"

namespace vsa::dit {
namespace {

WanConfig config() {
  WanConfig config;
  config.num_heads = 8;  // width 1024
  config.ffn_dim = 2048;
  config.num_layers = 5;
  config.text_dim = 64;
  return config;
}

/// Weights of zeros that all lie in one place; packing gives each a place of its own.
class ZeroWeights {
 public:
  explicit ZeroWeights(io::StorageType type)
      : type_(type), zeros_(static_cast<size_t>(6 * 1024 * 1024 * 4)) {
    const WanConfig c = config();
    const int64_t width = c.width();
    weights.config = c;
    weights.has_gates = true;
    const auto attention = [&] {
      return AttentionWeights{.q = linear(width, width),
                              .k = linear(width, width),
                              .v = linear(width, width),
                              .out = linear(width, width),
                              .norm_q = vector(width),
                              .norm_k = vector(width)};
    };
    weights.patch_embedding = linear(c.in_channels * c.patch.volume(), width);
    weights.text_in = linear(c.text_dim, width);
    weights.text_out = linear(width, width);
    weights.time_in = linear(c.freq_dim, width);
    weights.time_out = linear(width, width);
    weights.time_proj = linear(width, 6 * width);
    weights.head_scale_shift = vector(2 * width);
    weights.head = linear(width, c.out_channels * c.patch.volume());
    for (int64_t n = 0; n < c.num_layers; ++n) {
      weights.blocks.push_back({.scale_shift = vector(6 * width),
                                .self = attention(),
                                .gate = linear(width, width),
                                .text_norm_weight = vector(width),
                                .text_norm_bias = vector(width),
                                .text = attention(),
                                .up = linear(width, c.ffn_dim),
                                .down = linear(c.ffn_dim, width)});
    }
  }

  WanWeights weights;
  int64_t parameters = 0;

 private:
  nn::Weight vector(int64_t n) {
    parameters += n;
    return {.name = "zeros",
            .type = type_,
            .shape = {n},
            .bytes = std::span(zeros_).first(static_cast<size_t>(n * io::size_bytes(type_)))};
  }
  nn::LinearWeights linear(int64_t in, int64_t out) {
    return {.dims = {in, out}, .weight = vector(in * out), .bias = vector(out)};
  }

  io::StorageType type_;
  std::vector<std::byte> zeros_;
};

class ModelMemory : public testing::TestWithParam<io::StorageType> {};

TEST_P(ModelMemory, R26_IsTheBytesOfTheFileAndOneStepInF32) {
  if (const auto why = test::why_memory_is_not_measured()) GTEST_SKIP() << *why;
  const ZeroWeights zeros(GetParam());
  const int64_t before = test::restart_peak_memory();
  const auto model = cpu::make_model(zeros.weights, Context{}).value();
  text::TextEmbedding text{.rows = nn::Buffer(4 * 64), .num_rows = 4, .num_valid = 4};
  std::ranges::fill(text.rows.span(), 0.5F);
  const auto context = model->prepare_text(text).value();
  const Grid grid{1, 4, 4};
  const auto steps = model->make_steps(grid, TilePlan::grid(grid, {4, 4, 4}).value()).value();
  const std::vector<float> latents(16 * 8 * 8, 1.0F);
  std::vector<float> velocity(latents.size());
  std::vector<LayerStats> stats(5);
  const std::vector<int64_t> topk(5, 1);
  throw_if_error(forward({.latents = latents.data(),
                          .timestep = 500.0F,
                          .text = context.get(),
                          .topk = topk,
                          .on_layer = {},
                          .velocity = velocity.data()},
                         *steps, stats));
  const int64_t peak = test::process_memory("VmHWM") - before;
  const int64_t kept = zeros.parameters * io::size_bytes(GetParam());
  EXPECT_GT(peak, kept);  // the measurement sees the weights
  // The largest weight is the timestep's projection, [6 * width, width]. While it is packed it is
  // in memory twice in f32, and once when it is multiplied with. Scratch memory, activations,
  // oneDNN's code and the allocator take the rest.
  constexpr int64_t kLargest = 6 * 1024 * 1024 * 4;
  EXPECT_LT(peak, kept + 2 * kLargest + (24 << 20));
}
INSTANTIATE_TEST_SUITE_P(Types, ModelMemory,
                         testing::Values(io::StorageType::kF16, io::StorageType::kBF16,
                                         io::StorageType::kF32));

}  // namespace
}  // namespace vsa::dit
