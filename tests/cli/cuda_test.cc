// `--backend cuda`: the same results as the reference where there is a device, exit code 3 where
// there is none.
#include <algorithm>
#include <sstream>

#include "tests/cli/attention_file.h"
#include "tests/cli/expect.h"
#include "tests/support/compare.h"
#include "vsa/backend.h"

namespace vsa::test {
namespace {

BackendInfo cuda() { return backends()[static_cast<size_t>(BackendId::kCuda)]; }

#define VSA_NEEDS_CUDA \
  if (!cuda().available) GTEST_SKIP() << cuda().detail

/// Grid 5x6x7: 8 tiles, all but one partial. Four heads share two of k and v.
struct CliCuda : testing::Test {
  TemporaryDirectory dir;
  std::string in = dir.file("in.safetensors");

  static TestTensor draw(int64_t heads, uint64_t seed, DType dtype, Order order) {
    return normal_tensor(dtype, {.batch = 2, .num_heads = heads, .seq_len = 210, .head_dim = 64},
                         seed, order);
  }
  void write(DType dtype, Order order) const {
    write_tensors(in, {{"q", draw(4, 1, dtype, order)},
                       {"k", draw(2, 2, dtype, order)},
                       {"v", draw(2, 3, dtype, order)},
                       {"gate_coarse", draw(4, 4, dtype, order)}});
  }
  static RunResult on(const char* backend, std::vector<std::string> args) {
    args.insert(args.end(), {"--backend", backend});
    return run_vsa(args);
  }
};

TEST_F(CliCuda, WithoutADeviceItIsExitCode3) {
  if (cuda().available) GTEST_SKIP() << "there is a device";
  write(DType::kBF16, Order::kBshd);
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"attend", in, "-o", dir.file("out.safetensors"), "--grid", "5,6,7", "--topk", "3"},
           {"inspect", in, "--grid", "5,6,7", "--topk", "3"},
           {"bench", "--cases", std::string(VSA_SOURCE_DIR) + "/bench/cases"}}) {
    expect_failure(on("cuda", args), 3, "vsa " + args[0], "--backend cuda: " + cuda().detail);
  }
  EXPECT_EQ(dir.files(), std::vector<std::string>{"in.safetensors"});
}

TEST_F(CliCuda, AttendWritesWhatTheReferenceComputes) {
  VSA_NEEDS_CUDA;
  for (const Order order : {Order::kBshd, Order::kBhsd}) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      write(dtype, order);
      const auto attend = [&](const char* backend) {
        const std::string out = dir.file(std::string(backend) + ".safetensors");
        expect_success(on(
            backend, {"attend", in, "-o", out, "--grid", "5,6,7", "--topk", "3", "--forced-columns",
                      "0", "--lse", "--lut", "--layout", order == Order::kBshd ? "bshd" : "bhsd"}));
        return io::SafetensorsFile::open(out).value();
      };
      const auto want = attend("reference");
      const auto got = attend("cuda");
      // Two roundings to the dtype give 0.003 in bf16.
      EXPECT_LT(relative_l2(tensor_of(got, "out", order), tensor_of(want, "out", order)), 0.01);
      const Dims rows{.batch = 2, .num_heads = 4, .seq_len = 210, .head_dim = 1};
      const auto lse = [&](const io::SafetensorsFile& file) {
        return ConstTensor::bhsd(file.find("lse")->bytes.data(), DType::kF32, rows);
      };
      EXPECT_LT(relative_l2(lse(got), lse(want)), 1e-4);
      for (const char* table : {"lut", "lut_count"}) {
        EXPECT_TRUE(std::ranges::equal(got.find(table)->bytes, want.find(table)->bytes)) << table;
      }
    }
  }
}

TEST_F(CliCuda, InspectSeesTheSameMass) {
  VSA_NEEDS_CUDA;
  write(DType::kBF16, Order::kBshd);
  const std::vector<std::string> args = {"inspect", in,        "--grid", "5,6,7", "--topk",
                                         "3",       "--batch", "1",      "--json"};
  const RunResult got = on("cuda", args);
  const RunResult want = on("reference", args);
  expect_success(got);
  expect_success(want);
  ASSERT_EQ(got.json()["heads"].size(), 4U);
  for (size_t h = 0; h < 4; ++h) {
    const auto a = got.json()["heads"][h];
    const auto b = want.json()["heads"][h];
    for (auto field = b.begin(); field != b.end(); ++field) {
      EXPECT_NEAR(a.at(field.key()).get<double>(), field->get<double>(), 1e-3) << field.key();
    }
  }
}

TEST_F(CliCuda, BenchChecksAndTimesWhatThereIs) {
  VSA_NEEDS_CUDA;
  const std::string cases = dir.file("cases.txt");
  write_file(cases, "tiny 3,9,8 4,4,4 4 2 64 0.5 f32\n");
  const RunResult result =
      on("cuda", {"bench", "--cases", cases, "--dtype", "bf16", "--repeats", "2", "--json"});
  expect_success(result);
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 17);
  std::istringstream rows(result.out);
  for (std::string line; std::getline(rows, line);) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_GT(row["median_ms"].get<double>(), 0.0) << line;
    EXPECT_LT(row["median_ms"].get<double>(), 50.0) << line << " more than this tiny case can take";
    EXPECT_GE(row["extra_bytes"].get<int64_t>(), 0) << line;
    // So short a run may end before nvidia-smi gives its first sample.
    if (row.contains("gpu")) {
      EXPECT_GT(row["gpu"]["sm_mhz"][1].get<double>(), 0.0) << line;
    }
  }
  const RunResult f32 = on("cuda", {"bench", "--cases", cases, "--stage", "pool"});
  EXPECT_EQ(f32.exit_code, 3);
  EXPECT_THAT(f32.out, testing::HasSubstr("\nunsupported (pool): pool: x: expected bf16|f16"));
  const RunResult gemm = on("cuda", {"bench", "--cases", cases, "--stage", "gemm"});
  EXPECT_EQ(gemm.exit_code, 3);
  EXPECT_THAT(gemm.err, testing::HasSubstr("gemm: backend: expected reference or cpu, got cuda"));
}

/// Cases of several dtypes, as those of the repository: rows of f32 say so, the others run.
TEST_F(CliCuda, BenchTakesWhatItCanOfMixedCases) {
  VSA_NEEDS_CUDA;
  const std::string cases = dir.file("cases.txt");
  write_file(cases,
             "a 3,9,8 4,4,4 4 2 64 0.5 f32\nb 3,9,8 4,4,4 4 2 64 0.5 bf16\n"
             "c 3,9,8 4,4,4 4 2 64 0.5 f16\n");
  const RunResult result =
      on("cuda", {"bench", "--cases", cases, "--stage", "pool", "--repeats", "2", "--json"});
  expect_success(result);
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 3);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.contains("unsupported"), row["dtype"] == "f32") << line;
  }
}

TEST_F(CliCuda, WhatItCannotTakeIsExitCode3) {
  VSA_NEEDS_CUDA;
  write(DType::kF32, Order::kBshd);
  expect_failure(on("cuda", {"attend", in, "-o", dir.file("out.safetensors"), "--grid", "5,6,7",
                             "--topk", "3"}),
                 3, "vsa attend", "on the cuda backend");
}

}  // namespace
}  // namespace vsa::test
