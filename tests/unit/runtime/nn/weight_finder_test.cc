// Memory while weights are handed over and used; the rest of the finder is tested with whole
// models.
#include "runtime/nn/weight_finder.h"

#include <gtest/gtest.h>

#include "runtime/io/safetensors_writer.h"
#include "runtime/nn/linear.h"
#include "tests/runtime_support/process_memory.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::nn {
namespace {

class WeightMemory : public testing::TestWithParam<io::StorageType> {};

TEST_P(WeightMemory, R26_PeakIsTheFilesBytesAndOneLayerInF32) {
  if (const auto why = test::why_memory_is_not_measured()) GTEST_SKIP() << *why;
  constexpr int64_t kLayers = 12, kWidth = 2048;
  const test::ScratchDirectory folder;
  // 1.0 in both types of 16 bits.
  const uint16_t one = GetParam() == io::StorageType::kF16 ? 0x3C00 : 0x3F80;
  const std::vector<uint16_t> halves(kWidth * kWidth, one);
  io::TensorMap tensors;
  for (int64_t n = 0; n < kLayers; ++n) {
    tensors[std::to_string(n) + ".weight"] = {
        .type = GetParam(), .shape = {kWidth, kWidth}, .bytes = std::as_bytes(std::span(halves))};
  }
  throw_if_error(io::write_safetensors(folder / "m.safetensors", tensors));

  const io::Checkpoint checkpoint = io::Checkpoint::open(folder / "m.safetensors").value();
  WeightFinder finder(checkpoint, "test");
  const std::vector<float> x(kWidth, 1.0F);
  std::vector<float> y(kWidth);
  const int64_t before = test::restart_peak_memory();
  std::vector<Linear> layers;
  for (int64_t n = 0; n < kLayers; ++n) {
    layers.emplace_back(
        finder.linear(std::to_string(n), {.dims = {kWidth, kWidth}, .bias = false}));
  }
  EXPECT_TRUE(finder.finish().ok());
  WeightSpace space;
  for (const Linear& layer : layers) {
    space.clear();
    layer.ready(space).forward(x.data(), 1, y.data());
    EXPECT_EQ(y.back(), static_cast<float>(kWidth));
  }
  const int64_t peak = test::process_memory("VmHWM") - before;
  constexpr int64_t kWeights = kLayers * kWidth * kWidth * 2;
  EXPECT_GT(peak, kWeights);  // the measurement sees the weights
  // While packing: all weights but the last, that one in the file, twice in f32 and once packed.
  // The allowance of 8 MiB is for the allocator, oneDNN's code and the kernel's caches.
  EXPECT_LT(peak, kWeights + kWidth * kWidth * (2 + 4 + 4) + (8 << 20));
}
INSTANTIATE_TEST_SUITE_P(Types, WeightMemory,
                         testing::Values(io::StorageType::kF16, io::StorageType::kBF16));

}  // namespace
}  // namespace vsa::nn
