// Parity: every stage on every backend, in every dtype, against the reference run in f64 on the
// very same (rounded) inputs. The cases between them cover head dims, tile shapes, partial tiles,
// batches, GQA, Sq != Sk and memory orders.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/problem.h"
#include "tests/support/tolerance.h"

namespace vsa::test {

inline constexpr Context kReference{.backend = BackendId::kReference};
inline constexpr DType kTokenDtypes[] = {DType::kF32, DType::kBF16, DType::kF16};

struct ParityCase {
  std::string name;
  Heads heads;
  Grid q_grid, kv_grid;
  TileShape tile_shape;
  Order order = Order::kBshd;

  TilePlan q_plan() const { return TilePlan::grid(q_grid, tile_shape).value(); }
  TilePlan kv_plan() const { return TilePlan::grid(kv_grid, tile_shape).value(); }
};

inline std::vector<ParityCase> parity_cases() {
  return {
      {"D8_T4x4x4", {2, 2, 2, 8}, {5, 6, 7}, {5, 6, 7}, {4, 4, 4}, Order::kBshd},
      {"D24_T2x8x8", {1, 2, 1, 24}, {3, 9, 9}, {4, 8, 10}, {2, 8, 8}, Order::kBhsd},
      {"D64_T4x8x8", {1, 2, 2, 64}, {5, 9, 4}, {6, 8, 9}, {4, 8, 8}, Order::kFused},
      {"D80_T1x1x1", {2, 1, 1, 80}, {1, 3, 5}, {2, 3, 3}, {1, 1, 1}, Order::kSliced},
      {"D96_T3x5x2", {1, 4, 2, 96}, {4, 6, 5}, {3, 5, 7}, {3, 5, 2}, Order::kFused},
      {"D128_T1x16x16", {1, 1, 1, 128}, {1, 17, 18}, {1, 18, 20}, {1, 16, 16}, Order::kBshd},
      {"D160_T4x4x4", {2, 2, 1, 160}, {4, 4, 4}, {4, 8, 4}, {4, 4, 4}, Order::kBhsd},
      {"D256_T4x4x4", {1, 2, 1, 256}, {5, 6, 3}, {5, 4, 6}, {4, 4, 4}, Order::kFused},
  };
}

class ParityTest : public testing::TestWithParam<std::tuple<BackendId, ParityCase>> {
 protected:
  Context context() const { return {.backend = std::get<0>(GetParam())}; }
  const ParityCase& shape() const { return std::get<1>(GetParam()); }
  Qkv qkv(DType dtype, uint64_t seed = 1) const {
    return make_qkv(dtype, shape().heads, shape().q_plan(), shape().kv_plan(), seed, shape().order);
  }
  /// A token tensor like q.
  TestTensor like_q(DType dtype, uint64_t seed) const {
    return token_tensor(dtype, shape().heads, shape().q_plan(), seed, shape().order);
  }
  LutBuffer lut() const {
    return random_lut(shape().heads, shape().q_plan().num_tiles(), shape().kv_plan().num_tiles(),
                      9);
  }
};

inline std::string parity_name(const testing::TestParamInfo<ParityTest::ParamType>& info) {
  return std::get<1>(info.param).name + "_" + std::string(name(std::get<0>(info.param)));
}

inline void expect_gradients_close(const Gradients& got, const Gradients& want,
                                   const GradientTolerance& tolerance) {
  expect_close(got.dq, want.dq, tolerance.dq);
  expect_close(got.dk, want.dk, tolerance.dk);
  expect_close(got.dv, want.dv, tolerance.dv);
}

}  // namespace vsa::test

#define VSA_PARITY(Suite)                                                                     \
  INSTANTIATE_TEST_SUITE_P(                                                                   \
      Each, Suite,                                                                            \
      testing::Combine(testing::Values(::vsa::BackendId::kReference, ::vsa::BackendId::kCpu), \
                       testing::ValuesIn(::vsa::test::parity_cases())),                       \
      ::vsa::test::parity_name)
