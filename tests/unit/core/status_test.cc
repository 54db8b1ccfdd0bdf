// Status and Result.
#include "vsa/status.h"

#include <gtest/gtest.h>

namespace vsa {
namespace {

Status fail_if(bool fail) { return fail ? io_error("[x] y: expected a, got b") : Status(); }
Status through(bool fail, int* reached) {
  VSA_TRY(fail_if(fail));
  ++*reached;
  return {};
}

TEST(Status, TryReturnsTheFirstFault) {
  int reached = 0;
  EXPECT_TRUE(through(false, &reached).ok());
  EXPECT_EQ(through(true, &reached).code(), StatusCode::kIoError);
  EXPECT_EQ(reached, 1);
}

TEST(Status, NamesOfAllCodes) {
  EXPECT_EQ(name(StatusCode::kOk), "Ok");
  EXPECT_EQ(name(StatusCode::kInvalidArgument), "InvalidArgument");
  EXPECT_EQ(name(StatusCode::kUnsupported), "Unsupported");
  EXPECT_EQ(name(StatusCode::kOutOfMemory), "OutOfMemory");
  EXPECT_EQ(name(StatusCode::kDeviceError), "DeviceError");
  EXPECT_EQ(name(StatusCode::kIoError), "IoError");
  EXPECT_EQ(name(StatusCode::kCancelled), "Cancelled");
  EXPECT_EQ(name(StatusCode::kInternal), "Internal");
  EXPECT_EQ(name(static_cast<StatusCode>(99)), "Unknown");
}

TEST(Result, ValueOrError) {
  Result<int> right = 7;
  EXPECT_EQ(right.value(), 7);
  EXPECT_TRUE(right.status().ok());
  const Result<int> wrong = unsupported("[x] y: no");
  EXPECT_FALSE(wrong.ok());
  try {
    (void)wrong.value();
    FAIL() << "no exception";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), StatusCode::kUnsupported);
    EXPECT_STREQ(e.what(), "[x] y: no");
  }
}

}  // namespace
}  // namespace vsa
