// `vsa attend`: what it writes is what the library computes.
#include <cstring>

#include "tests/cli/attention_file.h"
#include "tests/cli/expect.h"
#include "tests/support/compare.h"
#include "tests/support/run.h"

namespace vsa::test {
namespace {

/// Grid 5x6x7: 8 tiles, all but one partial.
struct CliAttend : testing::Test {
  static constexpr int64_t kTokens = 210;
  TemporaryDirectory dir;
  std::string in = dir.file("in.safetensors");
  std::string out = dir.file("out.safetensors");
  TilePlan plan = TilePlan::grid({5, 6, 7}, {4, 4, 4}).value();

  static TestTensor draw(int64_t heads, uint64_t seed, DType dtype = DType::kF32,
                         Order order = Order::kBshd) {
    return normal_tensor(
        dtype, {.batch = 2, .num_heads = heads, .seq_len = kTokens, .head_dim = 64}, seed, order);
  }

  RunResult attend(std::vector<std::string> more) const {
    std::vector<std::string> args = {"attend", in, "-o", out, "--grid", "5,6,7"};
    args.insert(args.end(), more.begin(), more.end());
    return run_vsa(args);
  }
};

/// f32 sums of at most 210 products of N(0, 1) numbers, exp and division: 1e-5 covers them.
Tolerance rounding() { return {.bound = {1e-5}, .origin = "f32 sums of 210 terms"}; }

TEST_F(CliAttend, WritesWhatTheReferenceComputesOnBothBackendsAndLayouts) {
  for (const Order order : {Order::kBshd, Order::kBhsd}) {
    const TestTensor q = draw(4, 1, DType::kF32, order);
    const TestTensor k = draw(2, 2, DType::kF32, order);
    const TestTensor v = draw(2, 3, DType::kF32, order);
    const TestTensor gate = draw(4, 4, DType::kF32, order);
    write_tensors(in, {{"q", q}, {"k", k}, {"v", v}, {"gate_coarse", gate}});
    const AttentionResult want =
        run_attention({.backend = BackendId::kReference},
                      {.q = q, .k = k, .v = v, .q_plan = plan, .kv_plan = plan},
                      {.gate_coarse = Gate::tensor(gate), .select = {.topk = 3}});
    for (const char* backend : {"reference", "cpu"}) {
      expect_success(attend({"--topk", "3", "--lse", "--lut", "--backend", backend, "--layout",
                             order == Order::kBshd ? "bshd" : "bhsd"}));
      const auto file = io::SafetensorsFile::open(out).value();
      EXPECT_EQ(file.find("out")->shape, io::SafetensorsFile::open(in).value().find("q")->shape);
      expect_close(tensor_of(file, "out", order), want.out, rounding());
      ASSERT_EQ(file.find("lse")->shape, (std::vector<int64_t>{2, 4, kTokens}));
      const ConstTensor lse =
          ConstTensor::bhsd(file.find("lse")->bytes.data(), DType::kF32,
                            {.batch = 2, .num_heads = 4, .seq_len = kTokens, .head_dim = 1});
      expect_close(lse, want.lse, rounding());
      ASSERT_EQ(file.find("lut")->shape, (std::vector<int64_t>{2, 4, 8, 3}));
      ASSERT_EQ(file.find("lut_count")->shape, (std::vector<int64_t>{2, 4, 8}));
      const ConstLut lut{
          .index = reinterpret_cast<const int32_t*>(file.find("lut")->bytes.data()),
          .count = reinterpret_cast<const int32_t*>(file.find("lut_count")->bytes.data()),
          .dims = {.batch = 2, .num_heads = 4, .num_q_tiles = 8, .pitch = 3}};
      EXPECT_TRUE(same_lut(lut, want.lut.view()));
      EXPECT_EQ(file.metadata().at("vsa.backend"), backend);
    }
  }
}

TEST_F(CliAttend, KeepsTheDtypeOfTheInput) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    write_tensors(in,
                  {{"q", draw(2, 1, dtype)}, {"k", draw(2, 2, dtype)}, {"v", draw(2, 3, dtype)}});
    expect_success(attend({"--keep", "0.5", "--gate-coarse", "one"}));
    const auto file = io::SafetensorsFile::open(out).value();
    EXPECT_EQ(file.find("out")->type, io::to_storage_type(dtype));
    EXPECT_EQ(file.find("lse"), nullptr);
    EXPECT_EQ(file.find("lut"), nullptr);
  }
}

TEST_F(CliAttend, KvGridScaleNamesForcedColumnsAndDenseRows) {
  const TestTensor q = draw(2, 1);
  const Dims kv{.batch = 2, .num_heads = 2, .seq_len = 4 * 9 * 8, .head_dim = 64};
  const TestTensor k = normal_tensor(DType::kF32, kv, 2);
  const TestTensor v = normal_tensor(DType::kF32, kv, 3);
  write_tensors(in, {{"query", q}, {"key", k}, {"value", v}});
  const std::vector<int32_t> forced = {1, 5};
  const std::vector<int32_t> dense = {0, 7};
  const AttentionResult want =
      run_attention({.backend = BackendId::kReference},
                    {.q = q,
                     .k = k,
                     .v = v,
                     .q_plan = plan,
                     .kv_plan = TilePlan::grid({4, 9, 8}, {4, 4, 4}).value(),
                     .scale = 0.25F},
                    {.gate_coarse = Gate::zero(),
                     .select = {.topk = 1, .forced_columns = forced, .dense_rows = dense}});
  expect_success(attend({"--q", "query", "--k", "key", "--v", "value", "--kv-grid", "4,9,8",
                         "--scale", "0.25", "--topk", "1", "--forced-columns", "1,5",
                         "--dense-rows", "0,7", "--gate-coarse", "zero"}));
  const auto file = io::SafetensorsFile::open(out).value();
  expect_close(tensor_of(file, "out", Order::kBshd), want.out, rounding());
}

TEST_F(CliAttend, T23_AnAbsentCoarseGateMustBeStated) {
  write_tensors(in, {{"q", draw(2, 1)}, {"k", draw(2, 2)}, {"v", draw(2, 3)}});
  const RunResult refused = attend({"--topk", "3"});
  expect_failure(
      refused, 2, "vsa attend",
      "--gate-coarse: expected zero, one or the name of a tensor, as the file holds no tensor "
      "gate_coarse");
  EXPECT_THAT(refused.err, testing::HasSubstr("hint: zero leaves the coarse branch out"));
  EXPECT_EQ(dir.files(), std::vector<std::string>{"in.safetensors"});

  const auto bytes_of = [&](const char* gate) {
    expect_success(attend({"--topk", "3", "--gate-coarse", gate}));
    return read_file(out);
  };
  EXPECT_TRUE(bytes_of("zero") != bytes_of("one"));
}

TEST_F(CliAttend, P28_ThreadsOfABackendThatHasNone) {
  write_tensors(in, {{"q", draw(2, 1)}, {"k", draw(2, 2)}, {"v", draw(2, 3)}});
  const auto messages_of = [&](const char* backend) {
    const RunResult result =
        attend({"--topk", "3", "--gate-coarse", "one", "--threads", "2", "--backend", backend});
    EXPECT_EQ(result.exit_code, 0);
    return result.err;
  };
  EXPECT_THAT(messages_of("reference"),
              testing::HasSubstr("--threads: has no effect with --backend reference\n"));
  EXPECT_THAT(messages_of("cpu"), testing::Not(testing::HasSubstr("--threads")));
}

TEST_F(CliAttend, TheSameBytesForAnyNumberOfThreads) {
  write_tensors(in, {{"q", draw(2, 1)}, {"k", draw(2, 2)}, {"v", draw(2, 3)}});
  std::string first;
  for (const char* threads : {"1", "2", "3"}) {
    expect_success(attend({"--topk", "3", "--gate-coarse", "one", "--threads", threads}));
    const std::string bytes = read_file(out);
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << threads;
  }
}

TEST_F(CliAttend, Json) {
  write_tensors(in, {{"q", draw(2, 1)}, {"k", draw(2, 2)}, {"v", draw(2, 3)}});
  const RunResult result = attend({"--keep", "1", "--gate-coarse", "zero", "--json"});
  expect_success(result);
  EXPECT_EQ(result.json()["kept_pairs_share"], 1.0);
  EXPECT_EQ(result.json()["fine_flops"], 4.0 * 64 * 2 * 2 * kTokens * kTokens);
  EXPECT_EQ(result.json()["output"], out);
}

TEST_F(CliAttend, ATensorThatIsNotAlignedOnFileGivesTheSame) {
  write_tensors(in, {{"q", draw(2, 1)}, {"k", draw(2, 2)}, {"v", draw(2, 3)}});
  expect_success(attend({"--topk", "3", "--gate-coarse", "one"}));
  const std::string want = read_file(out);
  // One space more in the header moves the data by one byte.
  std::string bytes = read_file(in);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes.insert(sizeof length + length, 1, ' ');
  ++length;
  std::memcpy(bytes.data(), &length, sizeof length);
  write_file(in, bytes);
  expect_success(attend({"--topk", "3", "--gate-coarse", "one"}));
  EXPECT_TRUE(read_file(out) == want);
}

}  // namespace
}  // namespace vsa::test
