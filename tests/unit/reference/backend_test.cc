// src/reference/backend.cc: the specification has no gaps.
#include <gtest/gtest.h>

#include "src/core/backend_table.h"

namespace vsa {
namespace {

TEST(ReferenceBackend, ProvidesEveryStage) {
  const BackendTable& table = reference_backend();
  EXPECT_EQ(table.id, BackendId::kReference);
  EXPECT_TRUE(table.info().available);
  EXPECT_TRUE(table.tile && table.untile && table.pool && table.coarse && table.select &&
              table.fine && table.combine);
  EXPECT_TRUE(table.pool_backward && table.coarse_backward && table.fine_backward &&
              table.combine_backward);
  EXPECT_TRUE(table.attention_forward && table.attention_backward);
}

}  // namespace
}  // namespace vsa
