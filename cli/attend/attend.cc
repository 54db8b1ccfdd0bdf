// `vsa attend`: the operator on tensors of a file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/common/cost.h"
#include "cli/common/device.h"
#include "cli/common/failure.h"
#include "cli/common/heads.h"
#include "cli/common/interrupt.h"
#include "cli/common/named_path.h"
#include "cli/common/output.h"
#include "cli/common/progress.h"
#include "cli/common/table.h"
#include "cli/common/tensor_file.h"
#include "runtime/io/atomic_file.h"
#include "runtime/io/safetensors_writer.h"
#include "vsa/attention.h"
#include "vsa/version.h"

namespace vsa::cli {
namespace {

struct AttendCommand {
  TensorOptions tensors;
  std::string output;
  KeepOptions keep;
  std::vector<int64_t> forced_columns, dense_rows;
  std::string gate_coarse, gate_fine;
  BackendOptions backend;
  bool lse = false, lut = false, json = false;
};

/// A gate option: zero, one, or a tensor of the file. What an absent coarse gate means differs
/// between models, so it has to be said.
Gate coarse_gate(const std::string& option, AttentionInput& input) {
  if (option == "zero") return Gate::zero();
  if (option == "one") return Gate::one();
  const std::string name = option.empty() ? "gate_coarse" : option;
  if (const auto tensor = input.find_gate(name)) return Gate::tensor(*tensor);
  if (option.empty()) {
    fail_usage(
        "--gate-coarse: expected zero, one or the name of a tensor, as the file holds no tensor "
        "gate_coarse",
        "zero leaves the coarse branch out, one adds it as it is");
  }
  throw Failure(
      ExitCode::kInputOutput,
      fmt::format("--gate-coarse: expected zero, one or a tensor of the file, got {}", option));
}

Gate fine_gate(const std::string& option, AttentionInput& input) {
  if (option == "one") return Gate::one();
  const std::string name = option.empty() ? "gate_fine" : option;
  if (const auto tensor = input.find_gate(name)) return Gate::tensor(*tensor);
  if (option.empty()) return Gate::one();
  throw Failure(ExitCode::kInputOutput,
                fmt::format("--gate-fine: expected one or a tensor of the file, got {}", option));
}

/// Numbers of tiles, which the option keeps below 2^31.
std::vector<int32_t> tiles_of(const std::vector<int64_t>& numbers) {
  std::vector<int32_t> tiles;
  for (const int64_t t : numbers) tiles.push_back(static_cast<int32_t>(t));
  return tiles;
}

/// Everything the operator writes.
struct AttendResult {
  OwnedTensor out, lse;
  LutBuffer lut;
  double kept_pairs = 0.0;
  double ms = 0.0;
};

/// Runs the operator one kv head of one batch item at a time: heads do not depend on each other,
/// and between them progress can be shown and Ctrl-C obeyed.
Status attend_by_head(const Context& context, const AttentionArgs& args,
                      const InterruptScope& interrupt) {
  const int64_t num_kv_heads = args.k.shape[1];
  const int64_t group = args.q.shape[1] / num_kv_heads;
  ProgressBar bar;
  for (int64_t b = 0; b < args.q.shape[0]; ++b) {
    for (int64_t h = 0; h < num_kv_heads; ++h) {
      AttentionArgs part = args;
      const HeadRange q_heads{.batch = b, .first = h * group, .count = group};
      const HeadRange kv_heads{.batch = b, .first = h, .count = 1};
      part.q = heads_of(args.q, q_heads);
      part.k = heads_of(args.k, kv_heads);
      part.v = heads_of(args.v, kv_heads);
      part.gate_coarse = heads_of(args.gate_coarse, q_heads);
      part.gate_fine = heads_of(args.gate_fine, q_heads);
      part.out = heads_of(args.out, q_heads);
      part.lse = heads_of(args.lse, q_heads);
      part.lut_out = lut_heads_of(args.lut_out, q_heads);
      VSA_TRY(attention_forward(context, part));
      bar.update("attend", b * num_kv_heads + h + 1, args.q.shape[0] * num_kv_heads);
      interrupt.check();
    }
  }
  return {};
}

/// Runs `work`. @return how long it took
template <class Work>
double timed_ms(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const auto passed = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::milli>(passed).count();
}

/// Runs the operator in one call. @return its time, without the copies to the device and back
double attend_on_device(BackendId backend, const AttentionArgs& args) {
  Device device(backend);
  const AttentionArgs there = on_device(device, args);
  const double ms = timed_ms([&] {
    check(device.call([&](const Context& c) { return attention_forward(c, there); }));
    device.wait();
  });
  device.fetch();
  return ms;
}

AttendResult attend(const AttendCommand& command, AttentionInput& input, const Context& context,
                    const InterruptScope& interrupt) {
  const std::vector<int32_t> forced = tiles_of(command.forced_columns);
  const std::vector<int32_t> dense = tiles_of(command.dense_rows);
  const SelectOptions select{.topk = command.keep.topk_of(input.kv_plan().num_tiles()),
                             .forced_columns = forced,
                             .dense_rows = dense};
  const Dims dims{.batch = input.batch(),
                  .num_heads = input.num_heads(),
                  .seq_len = input.q().shape[2],
                  .head_dim = input.head_dim()};
  const Dims lse_dims{.batch = dims.batch, .num_heads = dims.num_heads, .seq_len = dims.seq_len};
  AttendResult result;
  result.out = OwnedTensor(input.q().dtype, dims, input.layout());
  const DType lse_dtype = input.q().dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  if (command.lse) result.lse = OwnedTensor(lse_dtype, lse_dims, Layout::kBhsd);
  result.lut = LutBuffer({.batch = dims.batch,
                          .num_heads = dims.num_heads,
                          .num_q_tiles = input.q_plan().num_tiles(),
                          .pitch = lut_pitch(select, input.kv_plan().num_tiles())});
  AttentionArgs args;
  args.q = input.q();
  args.k = input.k();
  args.v = input.v();
  args.gate_coarse = coarse_gate(command.gate_coarse, input);
  args.gate_fine = fine_gate(command.gate_fine, input);
  args.q_plan = &input.q_plan();
  args.kv_plan = &input.kv_plan();
  args.select = select;
  args.scale = command.tensors.scale;
  args.out = result.out.view();
  args.lse = result.lse.view();
  args.lut_out = result.lut.view();
  result.ms = is_on_device(context.backend)
                  ? attend_on_device(context.backend, args)
                  : timed_ms([&] { check(attend_by_head(context, args, interrupt)); });
  result.kept_pairs = kept_pairs(input.q_plan(), input.kv_plan(), result.lut.view());
  return result;
}

void write(const AttendCommand& command, const AttentionInput& input, AttendResult& result) {
  io::TensorMap tensors;
  tensors["out"] = result.out.on_file(result.out.file_shape());
  const ConstLut lut = result.lut.view();
  const LutDims& dims = lut.dims;
  const int64_t rows = dims.batch * dims.num_heads * dims.num_q_tiles;
  if (command.lse) {
    tensors["lse"] = result.lse.on_file({dims.batch, dims.num_heads, input.q().shape[2]});
  }
  if (command.lut) {
    const std::span<const int32_t> index(lut.index, static_cast<size_t>(rows * dims.pitch));
    const std::span<const int32_t> count(lut.count, static_cast<size_t>(rows));
    tensors["lut"] = {.type = io::StorageType::kI32,
                      .shape = {dims.batch, dims.num_heads, dims.num_q_tiles, dims.pitch},
                      .bytes = std::as_bytes(index)};
    tensors["lut_count"] = {.type = io::StorageType::kI32,
                            .shape = {dims.batch, dims.num_heads, dims.num_q_tiles},
                            .bytes = std::as_bytes(count)};
  }
  const io::Metadata metadata = {{"vsa.version", VSA_VERSION_STRING},
                                 {"vsa.backend", command.backend.backend},
                                 {"vsa.grid", to_text(input.grid())},
                                 {"vsa.order", std::string(name(input.tiling().order))},
                                 {"vsa.tile", to_text(input.tiling().tile)},
                                 {"vsa.layout", command.tensors.layout}};
  check(io::write_safetensors(command.output, tensors, metadata));
}

void report(const AttendCommand& command, const AttentionInput& input, const AttendResult& result) {
  const double heads = static_cast<double>(input.batch() * input.num_heads());
  const double all_pairs = heads * static_cast<double>(input.q_plan().num_valid_tokens()) *
                           static_cast<double>(input.kv_plan().num_valid_tokens());
  const double flops = pair_flops(result.kept_pairs, input.head_dim());
  if (command.json) {
    print_json({{"output", command.output},
                {"backend", command.backend.backend},
                {"dtype", name(input.q().dtype)},
                {"batch", input.batch()},
                {"num_heads", input.num_heads()},
                {"num_kv_heads", input.num_kv_heads()},
                {"head_dim", input.head_dim()},
                {"num_q_tiles", input.q_plan().num_tiles()},
                {"num_kv_tiles", input.kv_plan().num_tiles()},
                {"kept_pairs_share", result.kept_pairs / all_pairs},
                {"fine_flops", flops},
                {"ms", result.ms}});
    return;
  }
  print_result(fmt::format("{}: {} on {}, {:.2f} % of the token pairs, {}, {:.1f} ms\n",
                           command.output, to_string(ConstTensor(result.out.view())),
                           command.backend.backend, 100.0 * result.kept_pairs / all_pairs,
                           format_flops(flops), result.ms));
}

void run(const AttendCommand& command) {
  const Context context = command.backend.context();
  command.backend.warn_of_unused_threads();
  check_distinct({{"input", command.tensors.file}, {"--output", command.output}});
  AttentionInput input(command.tensors);
  const InterruptScope interrupt;
  check(io::check_writable(command.output));
  AttendResult result = attend(command, input, context, interrupt);
  write(command, input, result);
  report(command, input, result);
}

}  // namespace

void add_attend(CLI::App& app) {
  auto options = std::make_shared<AttendCommand>();
  CLI::App& command = *app.add_subcommand("attend", "run the operator on tensors of a file");
  options->tensors.add_to(command);
  add_text(command,
           {.names = "-o,--output",
            .kind = kFileKind,
            .help = "safetensors to write, with the tensor out"},
           options->output)
      .required();
  options->keep.add_to(command);
  add_list(command, "--forced-columns", options->forced_columns, {},
           "kv tiles that every query tile keeps in addition");
  add_list(command, "--dense-rows", options->dense_rows, {}, "query tiles that keep all kv tiles");
  add_text(command,
           {.names = "--gate-coarse",
            .kind = kTextKind,
            .help = "zero, one or the name of a tensor; default: the tensor gate_coarse"},
           options->gate_coarse);
  add_text(command,
           {.names = "--gate-fine",
            .kind = kTextKind,
            .help = "one or the name of a tensor; default: gate_fine if it is there, else one"},
           options->gate_fine);
  add_flag(command, "--lse", options->lse, "also write lse [B,H,S], natural log");
  add_flag(command, "--lut", options->lut, "also write lut [B,H,Nq,pitch] and lut_count [B,H,Nq]");
  add_example(command, "vsa attend in.safetensors -o out.safetensors --grid 8,16,16 --keep 0.25");
  options->backend.add_to(command);
  add_json_option(command, options->json);
  command.callback([options] { run(*options); });
}

}  // namespace vsa::cli
