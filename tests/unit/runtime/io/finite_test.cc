// Weights that are no numbers, in every type that is computed with.
#include "runtime/io/finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime/io/safetensors_writer.h"
#include "tests/runtime_support/weights.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::io {
namespace {

using testing::HasSubstr;

class Finite : public testing::TestWithParam<StorageType> {
 protected:
  Status check(std::vector<float> values) {
    const auto bytes = test::stored(values, GetParam());
    throw_if_error(write_safetensors(folder_ / "w.safetensors",
                                     {{"a", {GetParam(), {std::ssize(values)}, bytes}}}, {}));
    return check_finite(Checkpoint::open(folder_ / "w.safetensors").value(), "transformer");
  }
  test::ScratchDirectory folder_;
};

TEST_P(Finite, NumbersPass) {
  EXPECT_TRUE(check({0.0F, -0.0F, 65504.0F, -65504.0F, 6e-8F}).ok());
  EXPECT_TRUE(check(std::vector<float>(200000, 1.5F)).ok());
}

TEST_P(Finite, TheFirstThatIsNoneIsNamed) {
  std::vector<float> values(200000, 1.0F);
  values[131073] = std::numeric_limits<float>::quiet_NaN();
  values[140000] = std::numeric_limits<float>::infinity();
  const Status status = check(values);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(),
              HasSubstr("[load] transformer: \"a\": expected finite values, got NaN at element "
                        "131073"));
  values[3] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(check(values).message(), HasSubstr("got infinity at element 3"));
}

INSTANTIATE_TEST_SUITE_P(Types, Finite,
                         testing::Values(StorageType::kF16, StorageType::kBF16, StorageType::kF32,
                                         StorageType::kF64),
                         [](const auto& type) { return std::string(name(type.param)); });

}  // namespace
}  // namespace vsa::io
