// The order of a pass, on a device that only writes down what it is asked for.
#include "runtime/dit/transformer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vsa::dit {
namespace {

class NotedSteps : public Steps {
 public:
  NotedSteps() { config_.num_layers = 2; }

  const WanConfig& config() const override { return config_; }
  const TilePlan& plan() const override { return plan_; }
  Status begin(const float*, float timestep) override {
    return note(fmt::format("begin {}", timestep));
  }
  Status project(int64_t layer) override { return note(fmt::format("project {}", layer)); }
  Status attend_self(int64_t layer, int64_t topk, int64_t* kept) override {
    if (kept != nullptr) *kept = 7;
    return note(
        fmt::format("attend_self {} top {}{}", layer, topk, kept == nullptr ? "" : " counted"));
  }
  Status attend_text(int64_t layer, const TextContext&) override {
    return note(fmt::format("attend_text {}", layer));
  }
  Status feed_forward(int64_t layer) override {
    return note(fmt::format("feed_forward {}", layer));
  }
  Status run_layers(std::span<const int64_t>, const TextContext&,
                    const std::function<Status()>& enqueue) override {
    return enqueue();
  }
  Result<bool> finite() override {
    noted.push_back("finite");
    return noted.size() < broken_after;
  }
  Status end(float*) override { return note("end"); }
  Status read_residual(std::span<float>) override { return {}; }

  std::vector<std::string> noted;
  std::string failing;  // the step that fails
  size_t broken_after = 1000;

 private:
  Status note(const std::string& step) {
    noted.push_back(step);
    return step == failing ? Status(StatusCode::kDeviceError, "broke") : Status();
  }
  WanConfig config_;
  TilePlan plan_ = TilePlan::grid({4, 4, 8}, {4, 4, 4}).value();
};

struct Pass {
  NotedSteps steps;
  std::vector<LayerStats> stats = std::vector<LayerStats>(2);
  std::atomic<bool> cancel = false;
  int layers_done = 0;

  Status run() {
    const TextContext text;
    const std::vector<int64_t> topk{1, 2};
    return forward({.latents = nullptr,
                    .timestep = 250.0F,
                    .text = &text,
                    .topk = topk,
                    .cancel = &cancel,
                    .on_layer = [this] { ++layers_done; },
                    .velocity = nullptr},
                   steps, stats);
  }
};

TEST(Forward, RunsTheStepsLayerByLayerAndChecksEachLayer) {
  Pass pass;
  ASSERT_TRUE(pass.run().ok());
  EXPECT_THAT(
      pass.steps.noted,
      testing::ElementsAre("begin 250", "project 0", "attend_self 0 top 1 counted", "attend_text 0",
                           "feed_forward 0", "finite", "project 1", "attend_self 1 top 2 counted",
                           "attend_text 1", "feed_forward 1", "finite", "end"));
  EXPECT_EQ(pass.layers_done, 2);
  EXPECT_EQ(pass.stats[1].kept_tiles, 7);
  EXPECT_EQ(pass.stats[1].all_tiles, pass.steps.config().num_heads * 2 * 2);
}

TEST(Forward, WithoutStatsTheHostWaitsAtTheEndAlone) {
  Pass pass;
  pass.stats.clear();
  ASSERT_TRUE(pass.run().ok());
  EXPECT_THAT(pass.steps.noted, testing::Not(testing::Contains("finite")));
  EXPECT_THAT(pass.steps.noted, testing::Contains("attend_self 1 top 2"));
  EXPECT_EQ(pass.steps.noted.back(), "end");
}

TEST(Forward, NamesTheLayerOfANumberThatIsNotFinite) {
  Pass pass;
  pass.steps.broken_after = 7;
  const Status status = pass.run();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "layer 1: expected finite values, got NaN or infinity");
  EXPECT_EQ(pass.layers_done, 1);
}

TEST(Forward, AStepsErrorComesBackUnchangedAndStopsThePass) {
  for (const bool traced : {true, false}) {
    for (const char* step : {"begin 250", "project 0", "attend_text 1", "feed_forward 0", "end"}) {
      Pass pass;
      if (!traced) pass.stats.clear();
      pass.steps.failing = step;
      EXPECT_EQ(pass.run().message(), "broke");
      EXPECT_EQ(pass.steps.noted.back(), step);
    }
  }
}

TEST(Forward, CancellingTakesEffectBeforeALayer) {
  Pass pass;
  pass.cancel = true;
  const Status status = pass.run();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "layer 0: cancelled");
  EXPECT_EQ(pass.steps.noted.back(), "begin 250");
}

}  // namespace
}  // namespace vsa::dit
