// Selections: look-up tables that are read, tables that are written, options of select.
#include <gtest/gtest.h>

#include "tests/support/bad_call.h"
#include "tests/support/calls.h"
#include "tests/support/validate.h"

namespace vsa::test {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// Extents and pointers of the table `lut` of the arguments, read or written.
template <class Setup, class Get>
std::vector<BadCall<Setup>> bad_tables(const std::string& name, Get get) {
  std::vector<BadCall<Setup>> calls;
  const auto add = [&](const std::string& what, auto spoil) {
    calls.push_back({what, [get, spoil](Setup& s) { spoil(get(s)); }, name});
  };
  add("no counts", [](auto& lut) { lut.count = nullptr; });
  add("misaligned indices", [](auto& lut) {
    lut.index = reinterpret_cast<decltype(lut.index)>(reinterpret_cast<uintptr_t>(lut.index) + 2);
  });
  add("misaligned counts", [](auto& lut) {
    lut.count = reinterpret_cast<decltype(lut.count)>(reinterpret_cast<uintptr_t>(lut.count) + 1);
  });
  for (const int64_t wrong : {kMax, int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{3}}) {
    add("batch", [=](auto& lut) { lut.dims.batch = wrong; });
    add("heads", [=](auto& lut) { lut.dims.num_heads = wrong; });
    add("rows", [=](auto& lut) { lut.dims.num_q_tiles = wrong; });
  }
  for (const int64_t wrong : {kMax, kMax / 4, int64_t{0}, int64_t{-1}, -kMax - 1}) {
    add("pitch", [=](auto& lut) { lut.dims.pitch = wrong; });
  }
  return calls;
}

/// Counts and entries of a table that is read. The table has 2*4*4 rows of pitch 3, 6 kv tiles.
template <class Setup>
std::vector<BadCall<Setup>> bad_entries() {
  std::vector<BadCall<Setup>> calls;
  const auto add = [&](const std::string& what, int64_t row, std::vector<int32_t> entries,
                       int32_t count) {
    calls.push_back({what,
                     [=](Setup& s) {
                       const ConstLut& lut = s.args.lut;
                       std::copy(entries.begin(), entries.end(),
                                 const_cast<int32_t*>(lut.index) + row * 3);
                       const_cast<int32_t*>(lut.count)[row] = count;
                     },
                     "lut"});
  };
  add("count above the pitch", 0, {0, 1, 2}, 4);
  add("negative count", 31, {0, 1, 2}, -1);
  add("least count", 31, {0, 1, 2}, std::numeric_limits<int32_t>::min());
  add("index at the end", 31, {0, 1, 6}, 3);
  add("largest index", 5, {0, 1, std::numeric_limits<int32_t>::max()}, 3);
  add("T24: -1 inside the count", 31, {0, -1, -1}, 2);
  add("T24: first entry negative", 0, {-1}, 1);
  add("T24: repeated", 17, {2, 2}, 2);
  add("T24: descending", 17, {3, 2}, 2);
  add("T24: delta code", 17, {0, 2, 0}, 3);
  return calls;
}

template <class Setup>
auto lut_of() {
  return [](Setup & s) -> auto& { return s.args.lut; };
}

template <class Setup>
void expect_bad_tables_refused(std::string_view operation) {
  expect_refused(bad_tables<Setup>("lut", lut_of<Setup>()), operation);
  expect_refused(bad_entries<Setup>(), operation);
  expect_refused(BadCall<Setup>{"absent", [](Setup& s) { s.args.lut = {}; }, "lut"}, operation);
}

TEST(ValidateLists, T24_TablesThatAreRead) {
  expect_bad_tables_refused<FineCall>("fine");
  expect_bad_tables_refused<FineBackwardCall>("fine_backward");
  expect_bad_tables_refused<AttentionBackwardCall>("attention_backward");
}

struct AttentionWithLut : AttentionCall {
  AttentionWithLut() { args.lut = arena.lut(lut_dims(3)); }
};

TEST(ValidateLists, T24_TheCallersOwnTableForAttention) {
  const AttentionWithLut valid;
  EXPECT_TRUE(validate(valid.context, valid.args).ok());
  expect_refused(bad_tables<AttentionWithLut>("lut", lut_of<AttentionWithLut>()),
                 "attention_forward");
  expect_refused(bad_entries<AttentionWithLut>(), "attention_forward");
  expect_refused<AttentionWithLut>(
      {{"only counts", [](auto& s) { s.args.lut.index = nullptr; }, "lut"},
       {"lut_out narrower than lut", [](auto& s) { s.args.lut_out.dims.pitch = 2; }, "lut_out"}},
      "attention_forward");
}

TEST(ValidateLists, TheCallersOwnTableLeavesOptionsUnread) {
  AttentionWithLut call;
  call.args.select.topk = -5;
  EXPECT_TRUE(validate(call.context, call.args).ok());
}

TEST(ValidateLists, TablesThatAreWritten) {
  expect_refused(bad_tables<SelectCall>("lut", lut_of<SelectCall>()), "select");
  expect_refused(bad_tables<AttentionCall>(
                     "lut_out", [](AttentionCall & s) -> auto& { return s.args.lut_out; }),
                 "attention_forward");
  expect_refused<SelectCall>({{"absent", [](auto& s) { s.args.lut = {}; }, "lut"},
                              {"narrow", [](auto& s) { s.args.lut.dims.pitch = 3; }, "lut"}},
                             "select");
  expect_refused<AttentionCall>(
      {{"narrow", [](auto& s) { s.args.lut_out.dims.pitch = 3; }, "lut_out"},
       {"only counts", [](auto& s) { s.args.lut_out.index = nullptr; }, "lut_out"}},
      "attention_forward");
}

TEST(ValidateLists, T24_EveryCountAndAnUnreadTail) {
  FineCall call;  // 6 kv tiles
  std::vector<int32_t> index(2 * 4 * 4 * 8, 0x7FFFFFFF);
  std::vector<int32_t> count(2 * 4 * 4, 0);  // T16: rows may be empty
  for (int32_t i = 0; i < 6; ++i) index[static_cast<size_t>(i)] = i;
  count[0] = 6;  // all
  index[8] = 5;
  count[1] = 1;
  call.args.lut = {index.data(), count.data(), call.lut_dims(8)};
  const Status status = validate(call.context, call.args);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ValidateLists, T32_ATableForLongerKeys) {
  FineCall call;
  call.kv_plan = TilePlan::grid({2, 4, 4}, {2, 2, 2}).value();  // 4 kv tiles instead of 6
  call.args.k = call.arena.tensor(DType::kF32, {2, 2, 32, 8});
  call.args.v = call.arena.tensor(DType::kF32, {2, 2, 32, 8});
  ASSERT_TRUE(validate(call.context, call.args).ok());
  const_cast<int32_t*>(call.args.lut.index)[31 * 3] = 4;
  EXPECT_THAT(validate(call.context, call.args).message(),
              testing::StartsWith("[fine] lut: expected ascending unique kv tiles from 0 to 3"));
}

TEST(ValidateLists, T34_ATableForOtherTileShapes) {
  FineCall call;
  call.q_plan = TilePlan::grid({2, 4, 4}, {2, 2, 4}).value();  // 2 query tiles instead of 4
  EXPECT_THAT(validate(call.context, call.args).message(),
              testing::StartsWith("[fine] lut: expected int32 [2,4,2,1], got int32 [2,4,4,3]"));
}

template <class Setup>
std::vector<BadCall<Setup>> bad_options(std::function<SelectOptions&(Setup&)> options) {
  static const std::vector<int32_t> kDescending{4, 1}, kTwice{1, 1}, kNegative{-1, 2},
      kTooLarge{1, 6}, kTooLargeRow{4};
  std::vector<BadCall<Setup>> calls;
  const auto add = [&](const std::string& what, const std::string& argument, auto spoil) {
    calls.push_back({what, [=](Setup& s) { spoil(options(s)); }, argument});
  };
  for (const int64_t topk : {int64_t{0}, int64_t{-1}, int64_t{7}, kMax, -kMax - 1}) {
    add("T04: topk", "topk", [=](SelectOptions& o) { o.topk = topk; });
  }
  for (const auto* list : {&kDescending, &kTwice, &kNegative, &kTooLarge}) {
    add("columns", "forced_columns", [=](SelectOptions& o) { o.forced_columns = *list; });
    add("rows", "dense_rows", [=](SelectOptions& o) { o.dense_rows = *list; });
  }
  add("row past the end", "dense_rows", [](SelectOptions& o) { o.dense_rows = kTooLargeRow; });
  add("null list", "forced_columns", [](SelectOptions& o) {
    o.forced_columns = {static_cast<const int32_t*>(nullptr), 2};
  });
  return calls;
}

TEST(ValidateLists, T04_Options) {
  expect_refused(bad_options<SelectCall>([](auto& s) -> auto& { return s.args.options; }),
                 "select");
  expect_refused(bad_options<AttentionCall>([](auto& s) -> auto& { return s.args.select; }),
                 "attention_forward");
}

TEST(LutPitch, IsTheLargestCountOfARow) {
  const std::vector<int32_t> three{1, 4, 5};
  const std::vector<int32_t> row{0};
  EXPECT_EQ(lut_pitch({.topk = 2}, 6), 2);
  EXPECT_EQ(lut_pitch({.topk = 6}, 6), 6);
  EXPECT_EQ(lut_pitch({.topk = 2, .forced_columns = three}, 6), 5);
  EXPECT_EQ(lut_pitch({.topk = 4, .forced_columns = three}, 6), 6);
  EXPECT_EQ(lut_pitch({.topk = 1, .forced_columns = {}, .dense_rows = row}, 6), 6);
  EXPECT_EQ(lut_pitch({.topk = kMax, .forced_columns = three}, 6), 6);
  EXPECT_EQ(lut_pitch({.topk = -kMax, .forced_columns = three}, 6), 3);
}

}  // namespace
}  // namespace vsa::test
