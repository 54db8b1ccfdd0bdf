// The text encoder against transformers' UMT5EncoderModel, on weights in bf16 (README.md here).
#include "runtime/text/umt5.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/io/checkpoint.h"
#include "runtime/io/safetensors.h"
#include "runtime/json_fields.h"
#include "runtime/text/cpu/umt5_steps.h"
#include "tests/support/compare.h"

namespace vsa {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(VSA_SOURCE_DIR) / "tests/golden/umt5-tiny";
constexpr double kRelativeL2 = 1e-5;  // as in wan_test.cc
constexpr int64_t kRows = 512;        // what Wan's pipeline pads to

class Umt5Golden : public testing::TestWithParam<int> {
 protected:
  Umt5Golden()
      : expected_(io::SafetensorsFile::open(kFolder / "expected.safetensors").value()),
        checkpoint_(io::Checkpoint::open(kFolder / "model.safetensors").value()) {
    std::vector<std::string> ignored;
    config_ = text::parse_umt5_config(
                  runtime::read_json_object((kFolder / "config.json").string()).value(),
                  "config.json", ignored)
                  .value();
  }

  const io::TensorView& golden(const char* part) const {
    const io::TensorView* view = expected_.find(fmt::format("{}.{}", GetParam(), part));
    if (view == nullptr) throw std::runtime_error("no golden tensor");
    return *view;
  }

  io::SafetensorsFile expected_;
  io::Checkpoint checkpoint_;
  text::Umt5Config config_;
};

TEST_P(Umt5Golden, R10_ValidTokensAloneGiveWhatAPaddedRunGives) {
  nn::LoadSummary summary;
  text::Umt5Weights weights = text::find_umt5_weights(config_, checkpoint_, summary).value();
  EXPECT_EQ(summary.dtype, "BF16");
  EXPECT_EQ(summary.unused, std::vector<std::string>{});
  auto steps = text::cpu::make_steps(weights).value();
  text::Umt5Encoder encoder(std::move(weights), std::move(steps));

  std::vector<int32_t> ids(static_cast<size_t>(golden("ids").num_elements()));
  std::memcpy(ids.data(), golden("ids").bytes.data(), golden("ids").bytes.size());
  const text::TextEmbedding got = encoder.encode(ids, kRows).value();
  std::vector<float> want(static_cast<size_t>(golden("hidden").num_elements()));
  throw_if_error(io::copy_as_f32(golden("hidden"), want));
  const auto flat = [&](const float* data) {
    return ConstTensor::bhsd(data, DType::kF32,
                             {.seq_len = std::ssize(ids), .head_dim = config_.d_model});
  };
  EXPECT_EQ(got.num_valid, GetParam());
  EXPECT_LT(test::relative_l2(flat(got.rows.data()), flat(want.data())), kRelativeL2);
  ASSERT_EQ(got.rows.size(), kRows * config_.d_model);
  for (int64_t i = std::ssize(want); i < got.rows.size(); ++i) EXPECT_EQ(got.rows.data()[i], 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Tokens, Umt5Golden, testing::Values(1, 2, 20, 300),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace vsa
