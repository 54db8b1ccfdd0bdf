#include "tests/support/hostile_call.h"

#include <array>

#include "tests/support/hostile_args.h"

namespace vsa::test {
namespace {

/// Fills the arguments of one entrance and calls it.
using Make = vsa_status (*)(HostileArgs& a, const vsa_context& context);

template <class Args>
Args sized() {
  Args args{};
  args.struct_size = sizeof args;
  return args;
}

int32_t tile_dtype(const HostileArgs& a) { return a.dtype == VSA_F64 ? VSA_F64 : VSA_F32; }

HostileArgs::Shape with(HostileArgs::Shape shape, int64_t seq_len, int64_t head_dim) {
  return {shape[0], shape[1], seq_len, head_dim};
}
HostileArgs::Shape q_tiles(const HostileArgs& a) {
  return with(a.q_shape, a.num_q_tiles, a.q_shape[3]);
}
HostileArgs::Shape kv_tiles(const HostileArgs& a) {
  return with(a.kv_shape, a.num_kv_tiles, a.kv_shape[3]);
}
HostileArgs::Shape lse_shape(const HostileArgs& a) { return with(a.q_shape, a.q_shape[2], 1); }
HostileArgs::Shape padded(const HostileArgs& a, const vsa_plan* plan) {
  auto info = sized<vsa_plan_info>();
  (void)vsa_plan_get_info(plan, &info);  // a null plan leaves 0 tokens, which is refused later
  return with(a.q_shape, info.padded_len, a.q_shape[3]);
}

vsa_status make_tile(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_tile_args>();
  args.plan = a.q_plan();
  args.x = a.input(a.q_shape, a.dtype);
  args.tiled = a.output(padded(a, args.plan), a.dtype);
  a.memory().remember();
  return vsa_tile(&context, &args);
}

vsa_status make_untile(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_untile_args>();
  args.plan = a.q_plan();
  args.tiled = a.input(padded(a, args.plan), a.dtype);
  args.x = a.output(a.q_shape, a.dtype);
  a.memory().remember();
  return vsa_untile(&context, &args);
}

vsa_status make_pool(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_pool_args>();
  args.plan = a.q_plan();
  args.x = a.input(a.q_shape, a.dtype);
  args.pooled = a.output(q_tiles(a), tile_dtype(a));
  a.memory().remember();
  return vsa_pool(&context, &args);
}

vsa_status make_pool_backward(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_pool_backward_args>();
  args.plan = a.q_plan();
  args.dpooled = a.input(q_tiles(a), tile_dtype(a));
  args.dx = a.output(a.q_shape, a.dtype);
  a.memory().remember();
  return vsa_pool_backward(&context, &args);
}

vsa_status make_coarse(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_coarse_args>();
  const int32_t dtype = tile_dtype(a);
  args.kv_plan = a.kv_plan();
  args.q_pooled = a.input(q_tiles(a), dtype);
  args.k_pooled = a.input(kv_tiles(a), dtype);
  args.v_pooled = a.input(kv_tiles(a), dtype);
  args.scale = a.scale();
  args.coarse_scores = a.optional_output(with(a.q_shape, a.num_q_tiles, a.num_kv_tiles), dtype);
  args.coarse_out = a.optional_output(q_tiles(a), dtype);
  a.memory().remember();
  return vsa_coarse(&context, &args);
}

vsa_status make_coarse_backward(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_coarse_backward_args>();
  const int32_t dtype = tile_dtype(a);
  args.kv_plan = a.kv_plan();
  args.q_pooled = a.input(q_tiles(a), dtype);
  args.k_pooled = a.input(kv_tiles(a), dtype);
  args.v_pooled = a.input(kv_tiles(a), dtype);
  args.scale = a.scale();
  args.dcoarse_out = a.input(q_tiles(a), dtype);
  args.dq_pooled = a.output(q_tiles(a), dtype);
  args.dk_pooled = a.output(kv_tiles(a), dtype);
  args.dv_pooled = a.output(kv_tiles(a), dtype);
  a.memory().remember();
  return vsa_coarse_backward(&context, &args);
}

vsa_status make_select(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_select_args>();
  args.coarse_scores = a.input(with(a.q_shape, a.num_q_tiles, a.num_kv_tiles), tile_dtype(a));
  args.options = a.select_options();
  int64_t pitch = 1;
  (void)vsa_lut_pitch(&args.options, a.num_kv_tiles, &pitch);
  args.lut = a.output_lut(pitch);
  a.memory().remember();
  return vsa_select(&context, &args);
}

vsa_status make_fine(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_fine_args>();
  args.q = a.input(a.q_shape, a.dtype);
  args.k = a.input(a.kv_shape, a.dtype);
  args.v = a.input(a.kv_shape, a.dtype);
  args.q_plan = a.q_plan();
  args.kv_plan = a.kv_plan();
  args.lut = a.input_lut();
  args.scale = a.scale();
  args.out = a.output(a.q_shape, a.dtype);
  args.lse = a.optional_output(lse_shape(a), tile_dtype(a));
  a.memory().remember();
  return vsa_fine(&context, &args);
}

vsa_status make_fine_backward(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_fine_backward_args>();
  args.q = a.input(a.q_shape, a.dtype);
  args.k = a.input(a.kv_shape, a.dtype);
  args.v = a.input(a.kv_shape, a.dtype);
  args.q_plan = a.q_plan();
  args.kv_plan = a.kv_plan();
  args.lut = a.input_lut();
  args.scale = a.scale();
  args.out = a.input(a.q_shape, a.dtype);
  args.lse = a.input(lse_shape(a), tile_dtype(a));
  args.dout = a.input(a.q_shape, a.dtype);
  args.dq = a.output(a.q_shape, a.dtype);
  args.dk = a.output(a.kv_shape, a.dtype);
  args.dv = a.output(a.kv_shape, a.dtype);
  a.memory().remember();
  return vsa_fine_backward(&context, &args);
}

vsa_status make_combine(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_combine_args>();
  args.fine_out = a.input(a.q_shape, a.dtype);
  args.coarse_out = a.input(q_tiles(a), tile_dtype(a));
  args.gate_coarse = a.gate();
  args.gate_fine = a.gate();
  args.q_plan = a.q_plan();
  args.out = a.output(a.q_shape, a.dtype);
  a.memory().remember();
  return vsa_combine(&context, &args);
}

vsa_status make_combine_backward(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_combine_backward_args>();
  args.fine_out = a.input(a.q_shape, a.dtype);
  args.coarse_out = a.input(q_tiles(a), tile_dtype(a));
  args.gate_coarse = a.gate();
  args.gate_fine = a.gate();
  args.q_plan = a.q_plan();
  args.dout = a.input(a.q_shape, a.dtype);
  args.dfine_out = a.output(a.q_shape, a.dtype);
  args.dcoarse_out = a.optional_output(q_tiles(a), tile_dtype(a));
  args.dgate_coarse = a.optional_output(a.q_shape, a.dtype);
  args.dgate_fine = a.optional_output(a.q_shape, a.dtype);
  a.memory().remember();
  return vsa_combine_backward(&context, &args);
}

vsa_status make_attention_forward(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_attention_args>();
  args.q = a.input(a.q_shape, a.dtype);
  args.k = a.input(a.kv_shape, a.dtype);
  args.v = a.input(a.kv_shape, a.dtype);
  args.gate_coarse = a.gate();
  args.gate_fine = a.gate();
  args.q_plan = a.q_plan();
  args.kv_plan = a.kv_plan();
  args.select = a.select_options();
  int64_t pitch = 1;
  (void)vsa_lut_pitch(&args.select, a.num_kv_tiles, &pitch);
  if (args.select.topk % 3 == 2) {
    args.lut = a.input_lut();
    pitch = args.lut.pitch;
  }
  args.scale = a.scale();
  if (args.select.topk % 2 == 1) {
    args.q_pooled = a.input(q_tiles(a), tile_dtype(a));
    args.k_pooled = a.input(kv_tiles(a), tile_dtype(a));
    args.v_pooled = a.input(kv_tiles(a), tile_dtype(a));
    args.coarse_out = a.input(q_tiles(a), tile_dtype(a));
  }
  args.out = a.output(a.q_shape, a.dtype);
  args.lse = a.optional_output(lse_shape(a), tile_dtype(a));
  args.fine_out = a.optional_output(a.q_shape, a.dtype);
  args.lut_out = a.output_lut(pitch);
  a.memory().remember();
  return vsa_attention_forward(&context, &args);
}

vsa_status make_attention_backward(HostileArgs& a, const vsa_context& context) {
  auto args = sized<vsa_attention_backward_args>();
  args.q = a.input(a.q_shape, a.dtype);
  args.k = a.input(a.kv_shape, a.dtype);
  args.v = a.input(a.kv_shape, a.dtype);
  args.gate_coarse = a.gate();
  args.gate_fine = a.gate();
  args.q_plan = a.q_plan();
  args.kv_plan = a.kv_plan();
  args.lut = a.input_lut();
  args.scale = a.scale();
  args.lse = a.input(lse_shape(a), tile_dtype(a));
  args.fine_out = a.input(a.q_shape, a.dtype);
  args.dout = a.input(a.q_shape, a.dtype);
  args.dq = a.output(a.q_shape, a.dtype);
  args.dk = a.output(a.kv_shape, a.dtype);
  args.dv = a.output(a.kv_shape, a.dtype);
  args.dgate_coarse = a.optional_output(a.q_shape, a.dtype);
  args.dgate_fine = a.optional_output(a.q_shape, a.dtype);
  a.memory().remember();
  return vsa_attention_backward(&context, &args);
}

struct Operation {
  const char* name;
  Make make;
};
constexpr std::array<Operation, kNumHostileOperations> kOperations{{
    {"tile", make_tile},
    {"untile", make_untile},
    {"pool", make_pool},
    {"pool_backward", make_pool_backward},
    {"coarse", make_coarse},
    {"coarse_backward", make_coarse_backward},
    {"select", make_select},
    {"fine", make_fine},
    {"fine_backward", make_fine_backward},
    {"combine", make_combine},
    {"combine_backward", make_combine_backward},
    {"attention_forward", make_attention_forward},
    {"attention_backward", make_attention_backward},
}};

}  // namespace

HostileOutcome hostile_call(std::span<const uint8_t> bytes) {
  ByteSource source(bytes);
  const Operation& operation =
      kOperations[static_cast<size_t>(source.below(kNumHostileOperations))];
  HostileOutcome outcome{.operation = operation.name, .status = VSA_INVALID_ARGUMENT, .fault = ""};
  HostileArgs args(source);
  const vsa_context context = args.context();
  if (!args.make_plans()) return outcome;
  outcome.status = operation.make(args, context);
  const std::string text = vsa_last_error();
  if (outcome.status == VSA_OK) {
    args.accept_outputs();
    if (!args.memory().as_remembered()) outcome.fault = "wrote memory that is no output's";
  } else {
    if (!args.memory().as_remembered()) outcome.fault = "touched memory though it failed: " + text;
    if (!text.starts_with(std::string("[") + operation.name + "] ")) {
      outcome.fault = "an error text that does not name the operation: " + text;
    }
    if (outcome.status != VSA_INVALID_ARGUMENT && outcome.status != VSA_UNSUPPORTED) {
      outcome.fault = "neither refused nor done: " + text;
    }
  }
  return outcome;
}

}  // namespace vsa::test
