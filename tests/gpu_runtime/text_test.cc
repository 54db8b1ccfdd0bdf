// The text encoder on a card, in bf16, beside the CPU's in f32 from the same weights.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "runtime/text/cpu/umt5_steps.h"
#include "runtime/text/device/umt5_layout.h"
#include "runtime/text/device/umt5_steps.h"
#include "tests/gpu_runtime/card.h"
#include "tests/runtime_support/arrays.h"
#include "tests/runtime_support/random_umt5.h"

namespace vsa::test {
namespace {

// bf16 rounds each activation to 2^-9 of its size, independently: six roundings on the way of a
// layer's two branches, of which the residual takes in some, stay below this after a few layers.
constexpr double kBf16 = 1e-2;

std::vector<float> encode(text::Umt5Steps& steps, const text::Umt5Config& config,
                          const std::vector<float>& rows) {
  throw_if_error(steps.begin(rows.data(), std::ssize(rows) / config.d_model));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    throw_if_error(steps.attend(layer));
    throw_if_error(steps.feed_forward(layer));
  }
  std::vector<float> out(rows.size());
  throw_if_error(steps.end(out.data()));
  return out;
}

/// d_kv of 32 as the shipped model's encoder has it, and prompts of several lengths.
TEST(GpuText, EncodesWhatTheCpuEncodes) {
  VSA_NEEDS_CARD("cuBLAS");
  constexpr text::Umt5Config kConfig{
      .vocab_size = 10, .d_model = 128, .d_kv = 32, .num_heads = 4, .d_ff = 256, .num_layers = 5};
  for (const DType stored : {DType::kBF16, DType::kF32}) {
    const RandomUmt5 random(kConfig, stored, 1);
    const auto there =
        text::device::make_steps(random.weights, device::Memory::of(BackendId::kCuda).value())
            .value();
    const auto here = text::cpu::make_steps(random.weights).value();
    for (const int64_t tokens : {1, 9, 130, 9}) {
      SCOPED_TRACE(testing::Message() << name(stored) << ", " << tokens << " tokens");
      const auto rows = normal_f32(tokens * kConfig.d_model, static_cast<uint64_t>(tokens));
      const auto got = encode(*there, kConfig, rows);
      EXPECT_LT(relative_l2(got, encode(*here, kConfig, rows)), kBf16);
      EXPECT_EQ(encode(*there, kConfig, rows), got) << "the same bits again";
    }
  }
}

/// The widths of umT5-XXL with four of its layers, so that each of the two places for a layer is
/// used again, and the longest prompt.
TEST(GpuText, TheWidthsOfXxlInLessThanOneGibibyte) {
  VSA_NEEDS_CARD("cuBLAS");
  constexpr text::Umt5Config kConfig{.vocab_size = 256384,
                                     .d_model = 4096,
                                     .d_kv = 64,
                                     .num_heads = 64,
                                     .d_ff = 10240,
                                     .num_layers = 4};
  constexpr int64_t kTokens = 512;
  const RandomUmt5 random(kConfig, DType::kBF16, 2);
  const auto memory = device::Memory::of(BackendId::kCuda).value();
  const auto there = text::device::make_steps(random.weights, memory).value();
  const auto rows = normal_f32(kTokens * kConfig.d_model, 3);
  const auto got = encode(*there, kConfig, rows);
  EXPECT_LT(memory->most_bytes_taken(), int64_t{1} << 30);
  const int64_t needed = text::device::memory_needed_bytes(kConfig, DType::kBF16, kTokens);
  EXPECT_NEAR(static_cast<double>(memory->most_bytes_taken()), static_cast<double>(needed),
              0.02 * static_cast<double>(needed));

  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(encode(*there, kConfig, rows), got) << "the same bits again";
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  std::cout << "4 layers of XXL, 512 tokens: " << ms.count() << " ms\n";

  const auto here = text::cpu::make_steps(random.weights).value();
  EXPECT_LT(relative_l2(got, encode(*here, kConfig, rows)), kBf16);
}

}  // namespace
}  // namespace vsa::test
