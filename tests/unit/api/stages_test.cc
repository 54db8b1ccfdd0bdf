// What dispatch adds to a backend: the default scale, and that valid calls run.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/calls.h"

namespace vsa::test {
namespace {

template <class Setup>
void expect_runs(BackendId backend) {
  Setup call;
  call.context.backend = backend;
  const Status status = call.run();
  EXPECT_TRUE(status.ok()) << status.message();
}

class EveryBackend : public testing::TestWithParam<BackendId> {};

TEST_P(EveryBackend, RunsEveryValidCall) {
#define VSA_EXPECT_RUNS(stage, Args, fields) expect_runs<ValidCall<Args>>(GetParam());
  VSA_FOR_EACH_STAGE(VSA_EXPECT_RUNS)
#undef VSA_EXPECT_RUNS
}

/// The bytes of a call's memory after it ran with that scale.
template <class Setup>
std::vector<std::byte> after(BackendId backend, std::optional<float> scale) {
  Setup call;
  call.context.backend = backend;
  call.args.scale = scale;
  // Equal keys would make the scale irrelevant.
  if constexpr (requires { call.args.k; }) {
    auto* k = const_cast<float*>(static_cast<const float*>(call.args.k.data));
    for (int64_t i = 0; i < call.args.k.num_elements(); ++i) k[i] = static_cast<float>(i % 7);
  } else {
    auto* k = const_cast<float*>(static_cast<const float*>(call.args.k_pooled.data));
    for (int64_t i = 0; i < call.args.k_pooled.num_elements(); ++i)
      k[i] = static_cast<float>(i % 7);
  }
  EXPECT_TRUE(call.run().ok());
  return call.arena.bytes();
}

template <class Setup>
void expect_default_scale(BackendId backend) {
  const auto by_default = after<Setup>(backend, std::nullopt);
  EXPECT_TRUE(by_default == after<Setup>(backend, static_cast<float>(1.0 / std::sqrt(8.0))));
  EXPECT_FALSE(by_default == after<Setup>(backend, 1.0F));
}

TEST_P(EveryBackend, ScaleDefaultsToOneOverRootOfHeadDim) {
  expect_default_scale<CoarseCall>(GetParam());
  expect_default_scale<CoarseBackwardCall>(GetParam());
  expect_default_scale<FineCall>(GetParam());
  expect_default_scale<FineBackwardCall>(GetParam());
  expect_default_scale<AttentionCall>(GetParam());
  expect_default_scale<AttentionBackwardCall>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Stages, EveryBackend,
                         testing::Values(BackendId::kReference, BackendId::kCpu),
                         [](const auto& value) { return std::string(name(value.param)); });

}  // namespace
}  // namespace vsa::test
