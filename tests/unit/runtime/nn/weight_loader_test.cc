// Memory while weights are handed over; the rest of the loader is tested with whole models.
#include "runtime/nn/weight_loader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/io/safetensors_writer.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::nn {
namespace {

/// A value of /proc/self/status in bytes.
int64_t process_memory(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return -1;
}

TEST(WeightLoader, R26_PeakMemoryIsTheWeightsAndOneTensor) {
  if (!std::ofstream("/proc/self/clear_refs")) GTEST_SKIP() << "no /proc/self/clear_refs";
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps freed memory";
#endif
  constexpr int64_t kLayers = 12, kWidth = 2048;
  const test::ScratchDirectory folder;
  const std::vector<uint16_t> halves(kWidth * kWidth, 0x3C00);  // 1.0
  io::TensorMap tensors;
  for (int64_t n = 0; n < kLayers; ++n) {
    tensors[std::to_string(n) + ".weight"] = {.type = io::StorageType::kF16,
                                              .shape = {kWidth, kWidth},
                                              .bytes = std::as_bytes(std::span(halves))};
  }
  throw_if_error(io::write_safetensors(folder / "m.safetensors", tensors));

  const io::Checkpoint checkpoint = io::Checkpoint::open(folder / "m.safetensors").value();
  WeightLoader loader(checkpoint, "test");
  const int64_t before = process_memory("VmRSS");
  std::ofstream("/proc/self/clear_refs") << "5";  // starts the high-water mark anew
  std::vector<Linear> layers;
  for (int64_t n = 0; n < kLayers; ++n) {
    layers.push_back(loader.linear(std::to_string(n), {.dims = {kWidth, kWidth}, .bias = false}));
  }
  EXPECT_TRUE(loader.finish().ok());
  const int64_t peak = process_memory("VmHWM") - before;
  constexpr int64_t kWeights = kLayers * kWidth * kWidth * 4;
  EXPECT_GT(peak, kWeights);  // the measurement sees the weights
  // Weights, one tensor in f32 and in f16, and 4 MiB for the allocator and the kernel's caches.
  EXPECT_LT(peak, kWeights + kWidth * kWidth * 6 + (4 << 20));
}

}  // namespace
}  // namespace vsa::nn
