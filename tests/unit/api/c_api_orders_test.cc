// Plans of other orders through the C ABI.
#include <gtest/gtest.h>

#include <memory>

#include "vsa/c_api.h"

namespace vsa::test {
namespace {

struct Destroy {
  void operator()(vsa_plan* plan) const { vsa_plan_destroy(plan); }
};
using Plan = std::unique_ptr<vsa_plan, Destroy>;

TEST(CApiOrders, PlansOfCurvesAndAssignments) {
  const int64_t segments[1] = {70};
  const int64_t grid[3] = {5, 6, 7};
  int64_t tile[3] = {4, 4, 4};
  vsa_plan* plan = nullptr;
  ASSERT_EQ(vsa_plan_create_ordered(segments, 1, grid, VSA_ORDER_GILBERT, tile, &plan), VSA_OK);
  const Plan curve(plan);
  vsa_plan_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(vsa_plan_get_info(plan, &info), VSA_OK);
  EXPECT_EQ(info.num_tiles, 2 + 4);
  EXPECT_EQ(info.seq_len, 70 + 210);
  ASSERT_EQ(vsa_plan_create_in_compact_order(curve.get(), &plan), VSA_OK);
  const Plan compact(plan);
  ASSERT_EQ(vsa_plan_get_info(plan, &info), VSA_OK);
  EXPECT_EQ(info.seq_len, 70 + 210);
  const int32_t* tokens = nullptr;
  int64_t count = 0;
  ASSERT_EQ(vsa_plan_get_tile(plan, 5, &tokens, &count), VSA_OK);
  EXPECT_EQ(tokens[0], 70 + 3 * 64);
  EXPECT_EQ(count, 210 - 3 * 64);

  const int32_t order[5] = {4, 2, 0, 1, 3};
  const int32_t lens[2] = {2, 3};
  ASSERT_EQ(vsa_plan_create_assigned(order, 5, lens, 2, 4, &plan), VSA_OK);
  const Plan assigned(plan);
  ASSERT_EQ(vsa_plan_get_tile(plan, 1, &tokens, &count), VSA_OK);
  ASSERT_EQ(count, 3);
  EXPECT_EQ(tokens[2], 3);

  EXPECT_EQ(vsa_best_tile(nullptr, 64, tile), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_best_tile(grid, 64, nullptr), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_best_tile(grid, 0, tile), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(tile[0], 4);
  const int64_t wan[3] = {21, 30, 52};
  ASSERT_EQ(vsa_best_tile(wan, 64, tile), VSA_OK);
  EXPECT_EQ(tile[0] * 100 + tile[1] * 10 + tile[2], 354);
}

TEST(CApiOrders, WrongArgumentsAreRefusedAndNothingIsSet) {
  auto* const untouched = reinterpret_cast<vsa_plan*>(0x10);
  vsa_plan* plan = untouched;
  const int64_t grid[3] = {4, 4, 4};
  const int64_t bad[3] = {4, 0, 4};
  const int32_t lens[2] = {3, 5};
  for (const vsa_status status : {
           vsa_plan_create_in_compact_order(nullptr, &plan),
           vsa_plan_create_in_compact_order(untouched, nullptr),
           vsa_plan_create_ordered(nullptr, 0, grid, VSA_ORDER_GILBERT, grid, nullptr),
           vsa_plan_create_ordered(nullptr, 0, nullptr, VSA_ORDER_GILBERT, grid, &plan),
           vsa_plan_create_ordered(nullptr, 0, grid, VSA_ORDER_GILBERT, nullptr, &plan),
           vsa_plan_create_ordered(nullptr, 0, grid, VSA_ORDER_GILBERT, bad, &plan),
           vsa_plan_create_ordered(nullptr, 0, bad, VSA_ORDER_GILBERT_FRAMES, grid, &plan),
           vsa_plan_create_ordered(nullptr, 0, grid, 3, grid, &plan),
           vsa_plan_create_ordered(nullptr, 0, grid, -1, grid, &plan),
           vsa_plan_create_ordered(nullptr, 1, grid, VSA_ORDER_GILBERT, grid, &plan),
           vsa_plan_create_assigned(nullptr, 8, lens, 2, 8, &plan),
           vsa_plan_create_assigned(lens, 2, nullptr, 2, 8, &plan),
           vsa_plan_create_assigned(lens, -1, lens, 2, 8, &plan),
           vsa_plan_create_assigned(lens, 2, lens, -1, 8, &plan),
           vsa_plan_create_assigned(lens, 2, lens, 2, 8, &plan),
           vsa_plan_create_assigned(lens, 2, lens, 2, 8, nullptr),
       }) {
    EXPECT_EQ(status, VSA_INVALID_ARGUMENT);
  }
  EXPECT_EQ(plan, untouched);
}

}  // namespace
}  // namespace vsa::test
