// How a call divides its workspace. No device needed.
#include "src/cuda/support/workspace.h"

#include <gtest/gtest.h>

namespace vsa::cuda {
namespace {

alignas(256) std::byte memory[2048];

Context with(void* data, int64_t size) { return {.workspace = {.data = data, .size_bytes = size}}; }

TEST(Carver, GivesAlignedPartsThatDoNotOverlap) {
  const Context context = with(memory, sizeof(memory));
  Carver workspace(context);
  EXPECT_EQ(static_cast<void*>(workspace.take<float>(1)), memory);
  EXPECT_EQ(static_cast<void*>(workspace.take<int64_t>(33)), memory + 256);
  EXPECT_EQ(static_cast<void*>(workspace.take<uint8_t>(256)), memory + 768);
  EXPECT_TRUE(workspace.status("pool").ok());
  EXPECT_FALSE(workspace.answers_query());
}

TEST(Carver, ARunWithWhatTheQuerySaidIsEnoughAndOneByteLessIsNot) {
  int64_t size = -1;
  Context query;
  query.workspace_query = &size;
  const auto take = [](Carver& workspace) {
    workspace.take<float>(100);
    return workspace.take<int32_t>(3);
  };
  Carver asked(query);
  EXPECT_EQ(take(asked), nullptr);
  EXPECT_TRUE(asked.answers_query());
  ASSERT_EQ(size, 768);
  const Context enough = with(memory, size);
  Carver run(enough);
  EXPECT_NE(take(run), nullptr);
  EXPECT_TRUE(run.status("pool").ok());
  const Context short_of_one = with(memory, size - 1);
  Carver refused(short_of_one);
  EXPECT_EQ(take(refused), nullptr);
  EXPECT_EQ(refused.status("pool").code(), StatusCode::kInvalidArgument);
}

TEST(Carver, RefusesNullAndMisaligned) {
  for (void* data : {static_cast<void*>(nullptr), static_cast<void*>(memory + 128)}) {
    const Context context = with(data, 1024);
    Carver workspace(context);
    workspace.take<float>(1);
    EXPECT_EQ(workspace.status("pool").code(), StatusCode::kInvalidArgument);
  }
}

/// Extents whose product no integer holds ask for more than there is, never for less.
TEST(Carver, OverflowIsMoreThanAnyWorkspace) {
  EXPECT_EQ(product(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(product(int64_t{1} << 32, int64_t{1} << 32, int64_t{1}), INT64_MAX);
  int64_t size = -1;
  Context query;
  query.workspace_query = &size;
  Carver asked(query);
  asked.take<float>(3);
  asked.take<float>(int64_t{1} << 40, int64_t{1} << 40);
  asked.take<float>(3);
  EXPECT_TRUE(asked.answers_query());
  EXPECT_GT(size, INT64_MAX - 512);
  const Context context = with(memory, INT64_MAX - 512);
  Carver run(context);
  EXPECT_EQ(run.take<float>(int64_t{1} << 40, int64_t{1} << 40), nullptr);
  EXPECT_EQ(run.status("pool").code(), StatusCode::kInvalidArgument);
}

/// select without lists needs no bytes: the caller of such a call has no workspace to give.
TEST(Carver, ACallThatNeedsNothingTakesANullWorkspace) {
  const Context context;
  const Carver workspace(context);
  EXPECT_TRUE(workspace.status("select").ok());
}

}  // namespace
}  // namespace vsa::cuda
