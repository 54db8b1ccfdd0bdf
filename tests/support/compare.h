// The one comparator of the tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/caller.h"
#include "vsa/lut.h"
#include "vsa/tensor.h"

namespace vsa::test {

/// How far a result may be from the expected one, and why.
struct Tolerance {
  std::vector<double> bound;  ///< absolute: one for all elements, or one each, order [B, H, S, D]
  std::string origin;         ///< where it comes from; printed on failure
};

/// Results that must agree to the last bit of their value.
Tolerance exact();

/// Success if every element of `got` lies within its bound of `want`, the difference taken in fp64.
/// Infinities must be equal. A NaN anywhere (also in `want`) fails, as do a bound that is not
/// finite, different shapes, no elements, or a bound for another number of elements. The message
/// has the number of wrong elements, the worst one's index, both values, its bound and the bound's
/// origin.
testing::AssertionResult close(const ConstTensor& got, const ConstTensor& want,
                               const Tolerance& tolerance);

/// EXPECT_TRUE(close(...)), reported at the caller's line.
void expect_close(const ConstTensor& got, const ConstTensor& want, const Tolerance& tolerance,
                  Caller where = Caller());

/// Success if both tensors hold the same bits, whatever their strides. The dtypes must be equal.
testing::AssertionResult same_bits(const ConstTensor& got, const ConstTensor& want);

/// Success if both tables keep the same tiles; their pitches may differ.
testing::AssertionResult same_lut(const ConstLut& got, const ConstLut& want);

/// |got - want|_2 / |want|_2 over all elements; NaN if any element is NaN.
double relative_l2(const ConstTensor& got, const ConstTensor& want);

}  // namespace vsa::test
