// The C ABI: NULLs, struct sizes, out-parameters, error texts per thread, and that it gives the
// same as C++.
#include "vsa/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/random.h"
#include "vsa/stage_list.h"
#include "vsa/vsa.h"

namespace vsa::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Destroy {
  void operator()(vsa_plan* plan) const { vsa_plan_destroy(plan); }
};
using Plan = std::unique_ptr<vsa_plan, Destroy>;

Plan grid_plan(std::array<int64_t, 3> grid, std::array<int64_t, 3> tile) {
  vsa_plan* plan = nullptr;
  EXPECT_EQ(vsa_plan_create_grid(grid.data(), tile.data(), &plan), VSA_OK) << vsa_last_error();
  return Plan(plan);
}

/// A zeroed struct that says its size.
template <class Struct>
Struct sized() {
  Struct s{};
  s.struct_size = sizeof(Struct);
  return s;
}

constexpr vsa_context kReference{.struct_size = sizeof(vsa_context),
                                 .backend = VSA_REFERENCE,
                                 .num_threads = 0,
                                 .stream = nullptr,
                                 .workspace = nullptr,
                                 .workspace_bytes = 0,
                                 .workspace_query = nullptr};

template <class Args>
Args args_of(vsa_status (*)(const vsa_context*, const Args*)) {
  return {};
}

/// Calls visit(operation, function, Args{}) for every entrance that takes a context.
template <class Visit>
void for_each_call(Visit visit) {
#define VSA_VISIT(stage, Args, fields) visit(#stage, vsa_##stage, args_of(vsa_##stage));
  VSA_FOR_EACH_STAGE(VSA_VISIT)
#undef VSA_VISIT
}

TEST(CApi, NullsAndSizesAreRefusedByName) {
  for_each_call([](const std::string& operation, auto function, auto args) {
    EXPECT_EQ(function(nullptr, &args), VSA_INVALID_ARGUMENT);
    EXPECT_THAT(vsa_last_error(), StartsWith("[" + operation + "] context: expected a pointer"));
    EXPECT_EQ(function(&kReference, nullptr), VSA_INVALID_ARGUMENT);
    EXPECT_THAT(vsa_last_error(), StartsWith("[" + operation + "] args: expected a pointer"));
    for (const size_t size : {size_t{0}, sizeof(args) - 1, sizeof(args) + 8, SIZE_MAX}) {
      args.struct_size = size;
      EXPECT_EQ(function(&kReference, &args), VSA_INVALID_ARGUMENT);
      EXPECT_THAT(vsa_last_error(), StartsWith("[" + operation + "] args: expected struct_size"));
    }
    args.struct_size = sizeof(args);
    vsa_context context = kReference;
    context.struct_size = 0;
    EXPECT_EQ(function(&context, &args), VSA_INVALID_ARGUMENT);
    EXPECT_THAT(vsa_last_error(), StartsWith("[" + operation + "] context: expected struct_size"));
  });
}

TEST(CApi, T49_DefaultsOnlyIsAClearError) {
  for_each_call([](const std::string& operation, auto function, auto args) {
    args.struct_size = sizeof(args);
    EXPECT_EQ(function(&kReference, &args), VSA_INVALID_ARGUMENT);
    EXPECT_THAT(vsa_last_error(), StartsWith("[" + operation + "] "));
    EXPECT_THAT(vsa_last_error(), HasSubstr(": expected "));
    vsa_context context = kReference;
    context.backend = VSA_HIP;
    EXPECT_EQ(function(&context, &args), VSA_UNSUPPORTED);
    context.backend = -7;
    EXPECT_EQ(function(&context, &args), VSA_INVALID_ARGUMENT);
  });
}

TEST(CApi, PlansRefuseNullsAndLeaveTheOutParameterAlone) {
  auto* const untouched = reinterpret_cast<vsa_plan*>(8);
  vsa_plan* plan = untouched;
  const int64_t grid[3] = {4, 4, 4};
  const int64_t bad[3] = {4, 0, 4};
  const int64_t huge[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
  const int32_t lens[2] = {3, 5};
  const int64_t segments[1] = {-1};
  for (const vsa_status status : {
           vsa_plan_create_grid(nullptr, grid, &plan),
           vsa_plan_create_grid(grid, nullptr, &plan),
           vsa_plan_create_grid(grid, grid, nullptr),
           vsa_plan_create_grid(bad, grid, &plan),
           vsa_plan_create_grid(grid, bad, &plan),
           vsa_plan_create_grid(huge, grid, &plan),
           vsa_plan_create_grid(grid, huge, &plan),
           vsa_plan_create_tiled(nullptr, 2, 8, &plan),
           vsa_plan_create_tiled(lens, 2, 8, nullptr),
           vsa_plan_create_tiled(lens, 0, 8, &plan),
           vsa_plan_create_tiled(lens, -1, 8, &plan),
           vsa_plan_create_tiled(lens, 2, 4, &plan),
           vsa_plan_create_tiled(lens, 2, 257, &plan),
           vsa_plan_create_packed(nullptr, 1, grid, grid, &plan),
           vsa_plan_create_packed(segments, -1, grid, grid, &plan),
           vsa_plan_create_packed(segments, 1, grid, grid, &plan),
           vsa_plan_create_packed(nullptr, 0, nullptr, grid, &plan),
           vsa_plan_create_packed(nullptr, 0, grid, nullptr, &plan),
           vsa_plan_create_packed(nullptr, 0, grid, grid, nullptr),
           vsa_plan_create_in_tile_order(nullptr, &plan),
           vsa_plan_create_in_tile_order(untouched, nullptr),
       }) {
    EXPECT_EQ(status, VSA_INVALID_ARGUMENT);
  }
  EXPECT_EQ(plan, untouched);
  vsa_plan_destroy(nullptr);
}

TEST(CApi, PlanInfoAndTiles) {
  const Plan plan = grid_plan({5, 6, 7}, {4, 4, 4});
  vsa_plan_info info{};
  EXPECT_EQ(vsa_plan_get_info(plan.get(), &info), VSA_INVALID_ARGUMENT) << "size not set";
  EXPECT_EQ(vsa_plan_get_info(plan.get(), nullptr), VSA_INVALID_ARGUMENT);
  info.struct_size = sizeof info;
  EXPECT_EQ(vsa_plan_get_info(nullptr, &info), VSA_INVALID_ARGUMENT);
  ASSERT_EQ(vsa_plan_get_info(plan.get(), &info), VSA_OK);
  EXPECT_EQ(info.num_tiles, 8);
  EXPECT_EQ(info.num_prefix_tiles, 0);
  EXPECT_EQ(info.tile_tokens, 64);
  EXPECT_EQ(info.seq_len, 210);
  EXPECT_EQ(info.num_valid_tokens, 210);
  EXPECT_EQ(info.padded_len, 512);

  const int32_t* tokens = nullptr;
  int64_t count = -1;
  ASSERT_EQ(vsa_plan_get_tile(plan.get(), 7, &tokens, &count), VSA_OK);
  ASSERT_EQ(count, 1 * 2 * 3);
  EXPECT_EQ(tokens[0], (4 * 6 + 4) * 7 + 4);
  for (const int64_t tile : {int64_t{-1}, int64_t{8}, INT64_MAX}) {
    EXPECT_EQ(vsa_plan_get_tile(plan.get(), tile, &tokens, &count), VSA_INVALID_ARGUMENT);
  }
  EXPECT_EQ(vsa_plan_get_tile(nullptr, 0, &tokens, &count), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_plan_get_tile(plan.get(), 0, nullptr, &count), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_plan_get_tile(plan.get(), 0, &tokens, nullptr), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(count, 6);

  vsa_plan* tiled = nullptr;
  ASSERT_EQ(vsa_plan_create_in_tile_order(plan.get(), &tiled), VSA_OK);
  const Plan owner(tiled);
  ASSERT_EQ(vsa_plan_get_info(tiled, &info), VSA_OK);
  EXPECT_EQ(info.seq_len, 512);
}

TEST(CApi, T43_PackedPlan) {
  const int64_t segments[3] = {77, 0, 130};
  const int64_t grid[3] = {5, 6, 7};
  const int64_t tile[3] = {4, 4, 4};
  vsa_plan* plan = nullptr;
  ASSERT_EQ(vsa_plan_create_packed(segments, 3, grid, tile, &plan), VSA_OK);
  const Plan owner(plan);
  auto info = sized<vsa_plan_info>();
  ASSERT_EQ(vsa_plan_get_info(plan, &info), VSA_OK);
  EXPECT_EQ(info.num_prefix_tiles, 2 + 0 + 3);
  EXPECT_EQ(info.seq_len, 77 + 130 + 210);
}

TEST(CApi, T04_TopkFromSparsity) {
  int64_t topk = -1;
  EXPECT_EQ(vsa_topk_from_sparsity(NAN, 8, &topk), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_topk_from_sparsity(0.5, 0, &topk), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_topk_from_sparsity(0.5, 8, nullptr), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(topk, -1);
  EXPECT_EQ(vsa_topk_from_sparsity(0.95, 20, &topk), VSA_OK);
  EXPECT_EQ(topk, 2);
  EXPECT_STREQ(vsa_last_error(), "");
}

TEST(CApi, LutPitch) {
  const int32_t forced[2] = {0, 3};
  vsa_select_options options{.topk = 3,
                             .forced_columns = forced,
                             .num_forced_columns = 2,
                             .dense_rows = nullptr,
                             .num_dense_rows = 0};
  int64_t pitch = -1;
  EXPECT_EQ(vsa_lut_pitch(&options, 8, &pitch), VSA_OK);
  EXPECT_EQ(pitch, 5);
  options.num_forced_columns = -1;
  EXPECT_EQ(vsa_lut_pitch(&options, 8, &pitch), VSA_INVALID_ARGUMENT);
  options.num_forced_columns = 1;
  options.forced_columns = nullptr;
  EXPECT_EQ(vsa_lut_pitch(&options, 8, &pitch), VSA_INVALID_ARGUMENT);
  EXPECT_THAT(vsa_last_error(), StartsWith("[lut_pitch] forced_columns: expected a pointer"));
  EXPECT_EQ(vsa_lut_pitch(nullptr, 8, &pitch), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_lut_pitch(&options, 8, nullptr), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(pitch, 5);
}

TEST(CApi, BackendsAsInCpp) {
  const std::vector<BackendInfo> all = backends();
  ASSERT_EQ(static_cast<size_t>(vsa_num_backends()), all.size());
  for (int32_t i = 0; i < vsa_num_backends(); ++i) {
    auto info = sized<vsa_backend_info>();
    ASSERT_EQ(vsa_get_backend_info(i, &info), VSA_OK);
    const BackendInfo& expected = all[static_cast<size_t>(i)];
    EXPECT_EQ(info.backend, static_cast<int32_t>(expected.id));
    EXPECT_EQ(info.available, expected.available ? 1 : 0);
    EXPECT_EQ(info.name, name(expected.id));
    EXPECT_EQ(info.detail, expected.detail);
  }
  auto info = sized<vsa_backend_info>();
  EXPECT_EQ(vsa_get_backend_info(-1, &info), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_get_backend_info(vsa_num_backends(), &info), VSA_INVALID_ARGUMENT);
  EXPECT_EQ(vsa_get_backend_info(0, nullptr), VSA_INVALID_ARGUMENT);
  info.struct_size = 1;
  EXPECT_EQ(vsa_get_backend_info(0, &info), VSA_INVALID_ARGUMENT);
}

TEST(CApi, StatusNames) {
  EXPECT_STREQ(vsa_status_name(VSA_OK), "Ok");
  EXPECT_STREQ(vsa_status_name(VSA_IO_ERROR), "IoError");
  EXPECT_STREQ(vsa_status_name(-1), "Unknown");
  EXPECT_STREQ(vsa_status_name(8), "Unknown");
}

TEST(CApi, GatesOfAnUnknownKindAreUnset) {
  const Plan plan = grid_plan({2, 2, 2}, {2, 2, 2});
  std::vector<float> x(8 * 8);
  std::vector<float> y(8 * 8, 7.0F);
  auto args = sized<vsa_combine_args>();
  args.fine_out = vsa_read(vsa_bhsd(x.data(), VSA_F32, 1, 1, 8, 8));
  args.out = vsa_bhsd(y.data(), VSA_F32, 1, 1, 8, 8);
  args.q_plan = plan.get();
  args.gate_fine.kind = VSA_GATE_CONSTANT;
  for (const int32_t kind : {0, 3, -1}) {
    args.gate_coarse.kind = kind;
    EXPECT_EQ(vsa_combine(&kReference, &args), VSA_INVALID_ARGUMENT);
    EXPECT_THAT(vsa_last_error(), StartsWith("[combine] gate_coarse: expected a tensor or a"));
  }
  EXPECT_EQ(y, std::vector<float>(8 * 8, 7.0F));
}

TEST(CApi, HostileExtentsAreRefusedWhereTheyAreUsed) {
  const Plan plan = grid_plan({2, 2, 2}, {2, 2, 2});
  std::vector<float> x(64);
  auto args = sized<vsa_pool_args>();
  args.plan = plan.get();
  args.x = vsa_read(vsa_bshd(x.data(), VSA_F32, INT64_MAX, 8, INT64_MAX, INT64_MAX));
  args.pooled = vsa_bshd(x.data(), VSA_F32, 1, 1, 1, 8);
  EXPECT_EQ(vsa_pool(&kReference, &args), VSA_INVALID_ARGUMENT);
  EXPECT_THAT(vsa_last_error(), StartsWith("[pool] x: "));
}

/// Memory and arguments of one forward call, as C and as C++ see it.
struct Operator {
  static constexpr int64_t kHeads = 2, kHeadDim = 8;
  TilePlan plan = TilePlan::grid({4, 4, 6}, {2, 2, 2}).value();
  int64_t count = plan.seq_len() * kHeads * kHeadDim;
  std::vector<float> q = values(1), k = values(2), v = values(3), gate = values(4);
  std::vector<float> out = std::vector<float>(static_cast<size_t>(count));
  std::vector<int32_t> index =
      std::vector<int32_t>(static_cast<size_t>(kHeads * plan.num_tiles() * 3));
  std::vector<int32_t> row_count =
      std::vector<int32_t>(static_cast<size_t>(kHeads * plan.num_tiles()));

  std::vector<float> values(uint64_t seed) const {
    const std::vector<double> x = normal(count, seed);
    return {x.begin(), x.end()};
  }
};

TEST(CApi, GivesWhatCppGives) {
  Operator cpp;
  const Dims dims{1, Operator::kHeads, cpp.plan.seq_len(), Operator::kHeadDim};
  const auto read = [&](const std::vector<float>& x) {
    return ConstTensor::bshd(x.data(), DType::kF32, dims);
  };
  const LutDims lut_dims{1, Operator::kHeads, cpp.plan.num_tiles(), 3};
  const Status status =
      attention_forward({.backend = BackendId::kReference},
                        {.q = read(cpp.q),
                         .k = read(cpp.k),
                         .v = read(cpp.v),
                         .gate_coarse = Gate::tensor(read(cpp.gate)),
                         .gate_fine = Gate::constant(0.5F),
                         .q_plan = &cpp.plan,
                         .kv_plan = &cpp.plan,
                         .select = {.topk = 3},
                         .scale = 0.25F,
                         .out = Tensor::bshd(cpp.out.data(), DType::kF32, dims),
                         .lut_out = {cpp.index.data(), cpp.row_count.data(), lut_dims}});
  ASSERT_TRUE(status.ok()) << status.message();

  Operator c;
  const Plan plan = grid_plan({4, 4, 6}, {2, 2, 2});
  const auto tensor = [&](std::vector<float>& x) {
    return vsa_bshd(x.data(), VSA_F32, 1, dims.seq_len, dims.num_heads, dims.head_dim);
  };
  auto args = sized<vsa_attention_args>();
  args.q = vsa_read(tensor(c.q));
  args.k = vsa_read(tensor(c.k));
  args.v = vsa_read(tensor(c.v));
  args.gate_coarse = {VSA_GATE_TENSOR, 0.0F, vsa_read(tensor(c.gate))};
  args.gate_fine = {VSA_GATE_CONSTANT, 0.5F, {}};
  args.q_plan = args.kv_plan = plan.get();
  args.select.topk = 3;
  args.scale = {1, 0.25F};
  args.out = tensor(c.out);
  args.lut_out = {c.index.data(),     c.row_count.data(),   1,
                  lut_dims.num_heads, lut_dims.num_q_tiles, 3};
  ASSERT_EQ(vsa_attention_forward(&kReference, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(c.out, cpp.out);
  EXPECT_EQ(c.index, cpp.index);
  EXPECT_EQ(c.row_count, cpp.row_count);

  // The default scale is 1 / sqrt(8), so leaving it out gives something else.
  args.scale = {};
  ASSERT_EQ(vsa_attention_forward(&kReference, &args), VSA_OK);
  EXPECT_NE(c.out, cpp.out);
}

TEST(CApi, ErrorTextsBelongToTheirThread) {
  ASSERT_EQ(vsa_tile(nullptr, nullptr), VSA_INVALID_ARGUMENT);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &wrong] {
      wrong += std::strcmp(vsa_last_error(), "") != 0;
      for (int i = 0; i < 200; ++i) {
        const int64_t tiles = -1000 * t - i;
        int64_t topk = 0;
        wrong += vsa_topk_from_sparsity(0.5, tiles, &topk) != VSA_INVALID_ARGUMENT;
        wrong +=
            std::string(vsa_last_error()).find("got " + std::to_string(tiles)) == std::string::npos;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_THAT(vsa_last_error(), StartsWith("[tile] context"));
}

TEST(CApi, OnePlanServesManyThreads) {
  const Plan plan = grid_plan({4, 4, 6}, {2, 2, 2});
  std::vector<float> x(96 * 8);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
  const auto pooled = [&] {
    std::vector<float> mean(12 * 8);
    auto args = sized<vsa_pool_args>();
    args.plan = plan.get();
    args.x = vsa_read(vsa_bhsd(x.data(), VSA_F32, 1, 1, 96, 8));
    args.pooled = vsa_bhsd(mean.data(), VSA_F32, 1, 1, 12, 8);
    return vsa_pool(&kReference, &args) == VSA_OK ? mean : std::vector<float>();
  };
  const std::vector<float> expected = pooled();
  ASSERT_EQ(expected.size(), 96U);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) wrong += pooled() != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace vsa::test
