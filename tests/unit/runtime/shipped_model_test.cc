// The model that ships with the repository loads whole and runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/pipeline.h"

namespace vsa::runtime {
namespace {

TEST(ShippedModel, R19_LoadsEveryTensorAndRuns) {
  GenerateOptions options;
  options.model = std::filesystem::path(VSA_SOURCE_DIR) / "models/wan-toy";
  options.prompt = "a small red circle moving left";
  options.seed = 1;
  options.steps = 1;
  options.frames = 8;
  options.size = {{32, 32}};
  GenerateReport report;
  const Result<video::Frames> frames = generate(options, report);
  ASSERT_TRUE(frames.ok()) << frames.status().message();
  EXPECT_EQ(report.transformer.naming, "diffusers");
  EXPECT_EQ(report.transformer.dtype, "F16");
  EXPECT_TRUE(report.transformer.has_gates);
  EXPECT_TRUE(report.transformer.unused.empty());
  EXPECT_TRUE(report.text_encoder.unused.empty());
  EXPECT_TRUE(report.ignored_config_fields.empty());
  // The size is not the one it was trained on: P36.
  EXPECT_THAT(report.warnings, testing::ElementsAre(testing::StartsWith("size: ")));
  EXPECT_DOUBLE_EQ(report.kept_share, 0.25);
}

}  // namespace
}  // namespace vsa::runtime
