// Runs of the pipeline on a random model in a folder of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "runtime/pipeline.h"
#include "tests/runtime_support/tiny_model.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::runtime {

class Pipeline : public testing::Test {
 protected:
  GenerateOptions options(uint64_t seed = 7) const {
    GenerateOptions options;
    options.model = folder_ / "model";
    options.prompt = "a small red star";
    options.seed = static_cast<int64_t>(seed);
    options.latents = folder_ / "latents.safetensors";
    return options;
  }
  void write(const test::TinyModel& model) const { model.write(folder_ / "model"); }

  /// Runs and returns the frames; the report is in report_.
  video::Frames run(const GenerateOptions& options) { return generate(options, report_).value(); }
  Status fail(const GenerateOptions& options) { return generate(options, report_).status(); }

  void expect_refused(const GenerateOptions& options, StatusCode code, const std::string& text) {
    const Status status = fail(options);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), testing::HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(options.latents));
  }

  test::ScratchDirectory folder_;
  GenerateReport report_;
};

}  // namespace vsa::runtime
