// Tests that run on every backend of this build.
//
//   class Fine : public BackendTest {};
//   VSA_FOR_EACH_BACKEND(Fine);
//   TEST_P(Fine, DoesThis) {
//     VSA_NEEDS(fine);
//     ...run_fine(context(), ...)...
//   }
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "src/api/registry.h"
#include "vsa/backend.h"

namespace vsa::test {

class BackendTest : public testing::TestWithParam<BackendId> {
 protected:
  Context context() const { return {.backend = GetParam()}; }
};

inline std::string backend_test_name(const testing::TestParamInfo<BackendId>& info) {
  return std::string(name(info.param));
}

}  // namespace vsa::test

// A new backend is added to this list, and every test holds it to the specification.
#define VSA_FOR_EACH_BACKEND(Suite)                                                               \
  INSTANTIATE_TEST_SUITE_P(Each, Suite,                                                           \
                           testing::Values(::vsa::BackendId::kReference, ::vsa::BackendId::kCpu), \
                           ::vsa::test::backend_test_name)

/// Skips the test, visibly, on a backend whose table has no such stage.
#define VSA_NEEDS(stage)                                        \
  if (::vsa::find_backend(context().backend)->stage == nullptr) \
  GTEST_SKIP() << "the " << ::vsa::name(context().backend) << " backend does not provide " #stage

/// Skips unless the backend has every stage of the forward operator.
#define VSA_NEEDS_FORWARD \
  VSA_NEEDS(pool);        \
  VSA_NEEDS(coarse);      \
  VSA_NEEDS(select);      \
  VSA_NEEDS(fine);        \
  VSA_NEEDS(combine)

/// Skips unless the backend has every stage of the operator, forward and backward.
#define VSA_NEEDS_BACKWARD    \
  VSA_NEEDS_FORWARD;          \
  VSA_NEEDS(pool_backward);   \
  VSA_NEEDS(coarse_backward); \
  VSA_NEEDS(fine_backward);   \
  VSA_NEEDS(combine_backward)
