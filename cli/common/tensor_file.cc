// Reads attention tensors from a safetensors file. Host-only.
#include "cli/common/tensor_file.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>

#include "cli/common/command.h"
#include "cli/common/failure.h"
#include "runtime/io/printable.h"

namespace vsa::cli {
namespace {

Layout parse_layout(const std::string& text) {
  return text == "bshd" ? Layout::kBshd : Layout::kBhsd;
}

/// The sequence axis must be the grid.
void check_length(const char* option, Grid grid, const char* tensor, const ConstTensor& t) {
  if (t.shape[2] == grid.num_tokens()) return;
  fail_usage(fmt::format("{}: expected the {} tokens of {}, got {} = {} tokens", option, t.shape[2],
                         tensor, to_text(grid), grid.num_tokens()),
             "is --layout right? It says which axis of the file counts tokens");
}

/// Heads are taken one by one, so what the library checks of whole tensors is checked here.
void check_together(const ConstTensor& q, const ConstTensor& k, const ConstTensor& v) {
  if (k.shape[0] != q.shape[0] || q.shape[1] % k.shape[1] != 0 || k.shape[3] != q.shape[3] ||
      k.dtype != q.dtype) {
    fail_usage(fmt::format(
        "k: expected the batch, head_dim and dtype of q, {}, and a divisor of its heads, got {}",
        to_string(q), to_string(k)));
  }
  if (v.shape != k.shape || v.dtype != k.dtype) {
    fail_usage(fmt::format("v: expected {}, as k, got {}", to_string(k), to_string(v)));
  }
}

}  // namespace

void TensorOptions::add_to(CLI::App& command) {
  add_text(command,
           {.names = "input", .kind = kFileKind, .help = "safetensors with q, k and v of 4 axes"},
           file)
      .required();
  add_grid(command, "--grid", grid, "size of the video in tokens: frames, rows, columns")
      .required();
  add_grid(command, "--kv-grid", kv_grid, "the same for k and v; default: as --grid");
  tiling.add_to(command, "4,4,4");
  add_choice(command,
             {.names = "--layout",
              .kind = {},
              .help = "order of the axes in the file",
              .default_value = layout},
             {"bshd", "bhsd"}, layout);
  for (auto& [option, value] : {std::pair("--q", &q), {"--k", &k}, {"--v", &v}}) {
    add_text(command,
             {.names = option,
              .kind = kTextKind,
              .help = "name of this tensor in the file",
              .default_value = *value},
             *value);
  }
  add_number(command, "--scale", scale, {}, "softmax scale; default: 1/sqrt(head_dim)");
}

AttentionInput::AttentionInput(const TensorOptions& options)
    : path_(options.file), layout_(parse_layout(options.layout)) {
  grid_ = *options.grid;
  kv_grid_ = options.kv_grid.value_or(grid_);
  tiling_ = options.tiling.on(grid_);
  file_ = take(io::SafetensorsFile::open(path_));
  q_ = require("--q", options.q);
  k_ = require("--k", options.k);
  v_ = require("--v", options.v);
  check_length("--grid", grid_, "q", q_);
  check_length(options.kv_grid ? "--kv-grid" : "--grid", kv_grid_, "k", k_);
  check_together(q_, k_, v_);
  q_plan_ = take(TilePlan::grid(grid_, tiling_));
  kv_plan_ = take(TilePlan::grid(kv_grid_, tiling_));
}

std::optional<ConstTensor> AttentionInput::find_gate(const std::string& name) {
  const std::optional<ConstTensor> gate = find(name);
  if (gate && (gate->shape != q_.shape || gate->dtype != q_.dtype)) {
    fail_usage(fmt::format("{}: expected {}, as q, got {}", name, to_string(q_), to_string(*gate)));
  }
  return gate;
}

std::optional<ConstTensor> AttentionInput::find(const std::string& name) {
  const io::TensorView* tensor = file_.find(name);
  if (tensor == nullptr) return std::nullopt;
  return view(name, *tensor);
}

ConstTensor AttentionInput::require(const std::string& option, const std::string& name) {
  if (const auto tensor = find(name)) return *tensor;
  std::string names;
  for (const std::string& known : file_.names()) {
    names += (names.empty() ? "" : ", ") + io::printable(known);
    if (names.size() > 200) {
      names += ", ...";
      break;
    }
  }
  throw Failure(ExitCode::kInputOutput, fmt::format("{}: no tensor {} in {}", option, name, path_),
                names.empty() ? "the file holds no tensor" : "the file holds " + names);
}

ConstTensor AttentionInput::view(const std::string& name, const io::TensorView& tensor) {
  const auto fail = [&](const char* expected) {
    throw Failure(ExitCode::kInputOutput,
                  fmt::format("{}: {}: expected {}, got {}", path_, io::printable(name), expected,
                              io::to_string(tensor)));
  };
  const std::optional<DType> dtype = io::to_dtype(tensor.type);
  if (!dtype) fail("F32, BF16, F16 or F64");
  if (tensor.shape.size() != 4) fail("4 axes");
  if (tensor.num_elements() == 0) fail("no axis of length 0");
  const void* data = tensor.bytes.data();
  if (!tensor.is_aligned()) {
    copies_.push_back(std::make_unique<std::byte[]>(tensor.bytes.size()));
    std::memcpy(copies_.back().get(), tensor.bytes.data(), tensor.bytes.size());
    data = copies_.back().get();
  }
  const auto& shape = tensor.shape;
  if (layout_ == Layout::kBshd) {
    return ConstTensor::bshd(
        data, *dtype,
        {.batch = shape[0], .num_heads = shape[2], .seq_len = shape[1], .head_dim = shape[3]});
  }
  return ConstTensor::bhsd(
      data, *dtype,
      {.batch = shape[0], .num_heads = shape[1], .seq_len = shape[2], .head_dim = shape[3]});
}

}  // namespace vsa::cli
