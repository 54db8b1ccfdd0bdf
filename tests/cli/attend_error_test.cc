// `vsa attend`: every kind of bad input is an error that names it, before any output is touched.
#include <algorithm>
#include <cstring>

#include "tests/cli/attention_file.h"
#include "tests/cli/expect.h"

namespace vsa::test {
namespace {

using Args = std::vector<std::string>;

/// An output file is there already; after a failure it must be as it was, with nothing beside it.
struct CliAttendError : testing::Test {
  TemporaryDirectory dir;
  std::string in = dir.file("in.safetensors");
  std::string out = dir.file("out.safetensors");
  const Dims dims{.batch = 1, .num_heads = 2, .seq_len = 128, .head_dim = 32};

  CliAttendError() { write_file(out, "precious"); }

  void write(std::map<std::string, TestTensor> changed = {}) const {
    for (const char* name : {"q", "k", "v"}) {
      changed.try_emplace(name, normal_tensor(DType::kF32, dims, 1));
    }
    write_tensors(in, changed);
  }

  /// Later options of the same name replace the earlier ones.
  void fails(int exit_code, const std::string& text, const Args& more = {}) const {
    Args args = {"attend", in, "-o", out};
    std::map<std::string, std::string> options = {
        {"--grid", "2,8,8"}, {"--topk", "1"}, {"--gate-coarse", "one"}};
    for (size_t i = 0; i + 1 < more.size(); i += 2) options[more[i]] = more[i + 1];
    for (const auto& [name, value] : options) args.insert(args.end(), {name, value});
    const Args before = dir.files();
    expect_failure(run_vsa(args), exit_code, "vsa attend", text);
    EXPECT_TRUE(read_file(out) == "precious");
    EXPECT_EQ(dir.files(), before);
  }
};

TEST_F(CliAttendError, Options) {
  write();
  fails(2, "--grid: expected F,H,W", {"--grid", "2,8"});
  fails(2, "--grid: expected the 128 tokens of q", {"--grid", "2,8,9"});
  fails(2, "--kv-grid: expected the 128 tokens of k", {"--kv-grid", "1,1,1"});
  fails(2, "--layout: expected bshd or bhsd", {"--layout", "sbhd"});
  fails(2, "--tile: expected at most 256", {"--tile", "8,8,8"});
  fails(2, "--topk: expected a whole number", {"--topk", "0"});
  fails(2, "--topk: expected 1 to 4", {"--topk", "5"});
  fails(2, "--sparsity: expected a number", {"--sparsity", "nan"});
  fails(2, "exactly one of", {"--sparsity", "0.5"});
  fails(2, "scale: expected", {"--scale", "inf"});
  fails(2, "scale", {"--scale", "big"});
  fails(4, "--gate-coarse: expected zero, one or a tensor", {"--gate-coarse", "two"});
  fails(4, "--gate-fine: expected one or a tensor", {"--gate-fine", "two"});
  fails(4, "--q: no tensor query", {"--q", "query"});
}

TEST_F(CliAttendError, ListsOutOfRangeRepeatedOrNotAscending) {
  write();
  for (const char* option : {"--forced-columns", "--dense-rows"}) {
    fails(2, option + std::string(": expected"), {option, "4"});
    fails(2, option + std::string(": expected"), {option, "1,1"});
    fails(2, option + std::string(": expected"), {option, "2,1"});
    fails(2, option, {option, "-1"});
    fails(2, option, {option, "1,"});
  }
}

TEST_F(CliAttendError, TensorsThatDoNotFitTogether) {
  const auto with = [&](const char* name, DType dtype, Dims d) {
    write({{name, normal_tensor(dtype, d, 1)}});
  };
  Dims d = dims;
  d.head_dim = 40;
  with("k", DType::kF32, d);
  fails(2, "k: expected");
  d = dims;
  d.num_heads = 3;
  with("v", DType::kF32, d);
  fails(2, "v: expected");
  d = dims;
  d.seq_len = 64;
  with("v", DType::kF32, d);
  fails(2, "v: expected");
  d = dims;
  d.batch = 2;
  with("q", DType::kF32, d);
  fails(2, "k: expected");
  with("k", DType::kBF16, dims);
  fails(2, "k: expected");
  d = dims;
  d.num_heads = 1;
  with("gate_coarse", DType::kF32, d);
  fails(2, "--gate-coarse: expected", {"--gate-coarse", "gate_coarse"});
  write_tensors(in, {{"q", normal_tensor(DType::kF64, dims, 1)},
                     {"k", normal_tensor(DType::kF64, dims, 1)},
                     {"v", normal_tensor(DType::kF64, dims, 1)}});
  fails(3, "f64");
}

TEST_F(CliAttendError, FilesThatLie) {
  fails(4, "in.safetensors");  // missing
  write();
  const std::string good = read_file(in);
  uint64_t length = 0;
  std::memcpy(&length, good.data(), sizeof length);
  const auto with_header = [&](std::string header) {
    header.resize(std::max<size_t>(header.size(), length), ' ');
    const uint64_t size = header.size();
    std::string bytes(sizeof size, '\0');
    std::memcpy(bytes.data(), &size, sizeof size);
    write_file(in, bytes + header + good.substr(sizeof length + length));
  };
  const std::string header = good.substr(sizeof length, length);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{100}, good.size() - 1}) {
    write_file(in, good.substr(0, size));
    fails(4, in);
  }
  write_file(in, "GIF89a, and certainly no safetensors file");
  fails(4, in);
  with_header("not json");
  fails(4, in);
  auto json = nlohmann::json::parse(header);
  json["k"]["data_offsets"] = json["q"]["data_offsets"];  // overlap, and a hole
  with_header(json.dump());
  fails(4, in);
  json = nlohmann::json::parse(header);
  json["k"]["shape"] = {1, 128, 2, 33};
  with_header(json.dump());
  fails(4, "\"k\"");
  json = nlohmann::json::parse(header);
  json["k"]["colour"] = "red";
  with_header(json.dump());
  fails(4, "colour");
}

TEST_F(CliAttendError, TensorsOfTheWrongKind) {
  write();
  std::string bytes = read_file(in);
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    for (size_t at = changed.find(from); at != std::string::npos; at = changed.find(from, at)) {
      changed.replace(at, from.size(), to);
      at += to.size();
    }
    write_file(in, changed);
  };
  replace_all("\"F32\"", "\"I32\"");
  fails(4, "expected F32, BF16, F16 or F64, got I32");
  replace_all("[1,128,2,32]", "[1,128,64,1]");
  fails(3, "head_dim");
  replace_all("[1,128,2,32]", "[128,64]    ");
  fails(4, "expected 4 axes");
}

TEST_F(CliAttendError, Outputs) {
  write();
  Args args = {"attend", in, "--grid", "2,8,8", "--topk", "1", "--gate-coarse", "one", "-o"};
  const auto to = [&](const std::string& path) {
    Args all = args;
    all.push_back(path);
    return run_vsa(all);
  };
  const std::string same = "--output: expected another file than input";
  expect_failure(to(in), 2, "vsa attend", same);
  expect_failure(to(dir.file("./sub/../in.safetensors")), 2, "vsa attend", same);
  expect_failure(to(in + "/no/such/out.safetensors"), 4, "vsa attend", "no/such");
  expect_failure(to(dir.path().string()), 4, "vsa attend", dir.path().string());
  expect_failure(to("/dev/full"), 4, "vsa attend", "/dev/full");
}

TEST_F(CliAttendError, R21_FullDiskLeavesNothingBehind) {
  write();
  const Args before = dir.files();
  RunOptions options;
  options.max_file_bytes = 1024;  // as much as the OpenMP of LLVM needs in /dev/shm
  const RunResult result = run_vsa(
      {"attend", in, "-o", out, "--grid", "2,8,8", "--topk", "1", "--gate-coarse", "one"}, options);
  expect_failure(result, 4, "vsa attend", out);
  EXPECT_TRUE(read_file(out) == "precious");
  EXPECT_EQ(dir.files(), before);
}

}  // namespace
}  // namespace vsa::test
