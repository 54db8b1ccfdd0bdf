// C ABI: tensors, the seven stages and the whole operator, each handed to its C++ twin. Host-only.
#include <algorithm>

#include "src/api/c_guard.h"
#include "vsa/attention.h"
#include "vsa/norm_rope_pool.h"

namespace vsa::c_api {
namespace {

Tensor from_c(const vsa_tensor& t) {
  Tensor to;
  to.data = t.data;
  to.dtype = static_cast<DType>(t.dtype);
  std::copy_n(t.shape, 4, to.shape.begin());
  std::copy_n(t.stride, 4, to.stride.begin());
  return to;
}

ConstTensor from_c(const vsa_const_tensor& t) {
  ConstTensor to;
  to.data = t.data;
  to.dtype = static_cast<DType>(t.dtype);
  std::copy_n(t.shape, 4, to.shape.begin());
  std::copy_n(t.stride, 4, to.stride.begin());
  return to;
}

vsa_tensor to_c(const Tensor& t) {
  vsa_tensor to{.data = t.data, .dtype = static_cast<int32_t>(t.dtype), .shape = {}, .stride = {}};
  std::copy_n(t.shape.begin(), 4, to.shape);
  std::copy_n(t.stride.begin(), 4, to.stride);
  return to;
}

/// A gate of unknown kind becomes an unset one, which every call refuses.
Gate from_c(const vsa_gate& g) {
  switch (g.kind) {
    case VSA_GATE_CONSTANT:
      return Gate::constant(g.constant);
    case VSA_GATE_TENSOR:
      return Gate::tensor(from_c(g.tensor));
    default:
      return {};
  }
}

Lut from_c(const vsa_lut& l) {
  return {l.index, l.count, {l.batch, l.num_heads, l.num_q_tiles, l.pitch}};
}
ConstLut from_c(const vsa_const_lut& l) {
  return {l.index, l.count, {l.batch, l.num_heads, l.num_q_tiles, l.pitch}};
}

std::optional<float> from_c(const vsa_scale& s) {
  return s.is_set != 0 ? std::optional(s.value) : std::nullopt;
}

const TilePlan* from_c(const vsa_plan* plan) { return plan == nullptr ? nullptr : &plan->plan; }

/// The lists of the options; their content is checked by the call itself.
Status from_c(std::string_view operation, const vsa_select_options& o, SelectOptions& to) {
  const auto list = [&](std::string_view argument, const int32_t* data, int64_t count,
                        std::span<const int32_t>& span) -> Status {
    if (count < 0 || (data == nullptr && count > 0)) {
      return invalid_argument(fmt::format("[{}] {}: expected {}, got {}", operation, argument,
                                          count < 0 ? "a count of at least 0" : "a pointer",
                                          count < 0 ? std::to_string(count) : "NULL"));
    }
    span = {data, static_cast<size_t>(count)};
    return {};
  };
  to.topk = o.topk;
  VSA_TRY(list("forced_columns", o.forced_columns, o.num_forced_columns, to.forced_columns));
  return list("dense_rows", o.dense_rows, o.num_dense_rows, to.dense_rows);
}

/// Checks the two structs and calls body(Context, const Args&) -> Status.
template <class Args, class Body>
vsa_status call(std::string_view operation, const vsa_context* context, const Args* args,
                const Body& body) noexcept {
  return guarded([&]() -> Status {
    VSA_TRY(check_struct(operation, "context", context));
    VSA_TRY(check_struct(operation, "args", args));
    return body(Context{.backend = static_cast<BackendId>(context->backend),
                        .num_threads = context->num_threads,
                        .stream = context->stream,
                        .workspace = {context->workspace, context->workspace_bytes},
                        .workspace_query = context->workspace_query},
                *args);
  });
}

}  // namespace
}  // namespace vsa::c_api

using namespace vsa;         // NOLINT(google-build-using-namespace): this file is the C side of vsa
using namespace vsa::c_api;  // NOLINT(google-build-using-namespace)

extern "C" {

vsa_tensor vsa_bshd(void* data, int32_t dtype, int64_t b, int64_t s, int64_t h,
                    int64_t d) noexcept {
  return to_c(Tensor::bshd(data, static_cast<DType>(dtype), {b, h, s, d}));
}

vsa_tensor vsa_bhsd(void* data, int32_t dtype, int64_t b, int64_t h, int64_t s,
                    int64_t d) noexcept {
  return to_c(Tensor::bhsd(data, static_cast<DType>(dtype), {b, h, s, d}));
}

vsa_const_tensor vsa_read(vsa_tensor t) noexcept {
  vsa_const_tensor to{.data = t.data, .dtype = t.dtype, .shape = {}, .stride = {}};
  std::copy_n(t.shape, 4, to.shape);
  std::copy_n(t.stride, 4, to.stride);
  return to;
}

vsa_status vsa_lut_pitch(const vsa_select_options* options, int64_t num_kv_tiles,
                         int64_t* pitch) noexcept {
  return guarded([&]() -> Status {
    if (options == nullptr) return null_argument("lut_pitch", "options");
    if (pitch == nullptr) return null_argument("lut_pitch", "pitch");
    SelectOptions converted;
    VSA_TRY(from_c("lut_pitch", *options, converted));
    *pitch = lut_pitch(converted, num_kv_tiles);
    return {};
  });
}

vsa_status vsa_tile(const vsa_context* context, const vsa_tile_args* args) noexcept {
  return call("tile", context, args, [](const Context& c, const vsa_tile_args& a) {
    return tile(c, {.x = from_c(a.x), .plan = from_c(a.plan), .tiled = from_c(a.tiled)});
  });
}

vsa_status vsa_untile(const vsa_context* context, const vsa_untile_args* args) noexcept {
  return call("untile", context, args, [](const Context& c, const vsa_untile_args& a) {
    return untile(c, {.tiled = from_c(a.tiled), .plan = from_c(a.plan), .x = from_c(a.x)});
  });
}

vsa_status vsa_pool(const vsa_context* context, const vsa_pool_args* args) noexcept {
  return call("pool", context, args, [](const Context& c, const vsa_pool_args& a) {
    return pool(c, {.x = from_c(a.x), .plan = from_c(a.plan), .pooled = from_c(a.pooled)});
  });
}

vsa_status vsa_norm_rope_pool(const vsa_context* context,
                              const vsa_norm_rope_pool_args* args) noexcept {
  return call("norm_rope_pool", context, args,
              [](const Context& c, const vsa_norm_rope_pool_args& a) {
                return norm_rope_pool(c, {.x = from_c(a.x),
                                          .plan = from_c(a.plan),
                                          .norm = static_cast<NormOver>(a.norm),
                                          .eps = a.eps,
                                          .weight = from_c(a.weight),
                                          .rstd = from_c(a.rstd),
                                          .cos = from_c(a.cos),
                                          .sin = from_c(a.sin),
                                          .pooled = from_c(a.pooled)});
              });
}

vsa_status vsa_pool_backward(const vsa_context* context,
                             const vsa_pool_backward_args* args) noexcept {
  return call("pool_backward", context, args,
              [](const Context& c, const vsa_pool_backward_args& a) {
                return pool_backward(
                    c, {.dpooled = from_c(a.dpooled), .plan = from_c(a.plan), .dx = from_c(a.dx)});
              });
}

vsa_status vsa_coarse(const vsa_context* context, const vsa_coarse_args* args) noexcept {
  return call("coarse", context, args, [](const Context& c, const vsa_coarse_args& a) {
    return coarse(c, {.q_pooled = from_c(a.q_pooled),
                      .k_pooled = from_c(a.k_pooled),
                      .v_pooled = from_c(a.v_pooled),
                      .kv_plan = from_c(a.kv_plan),
                      .scale = from_c(a.scale),
                      .rounding = static_cast<CoarseRounding>(a.rounding),
                      .coarse_scores = from_c(a.coarse_scores),
                      .coarse_out = from_c(a.coarse_out)});
  });
}

vsa_status vsa_coarse_backward(const vsa_context* context,
                               const vsa_coarse_backward_args* args) noexcept {
  return call("coarse_backward", context, args,
              [](const Context& c, const vsa_coarse_backward_args& a) {
                return coarse_backward(c, {.q_pooled = from_c(a.q_pooled),
                                           .k_pooled = from_c(a.k_pooled),
                                           .v_pooled = from_c(a.v_pooled),
                                           .kv_plan = from_c(a.kv_plan),
                                           .scale = from_c(a.scale),
                                           .dcoarse_out = from_c(a.dcoarse_out),
                                           .dq_pooled = from_c(a.dq_pooled),
                                           .dk_pooled = from_c(a.dk_pooled),
                                           .dv_pooled = from_c(a.dv_pooled)});
              });
}

vsa_status vsa_select(const vsa_context* context, const vsa_select_args* args) noexcept {
  return call("select", context, args, [](const Context& c, const vsa_select_args& a) -> Status {
    SelectArgs to{.coarse_scores = from_c(a.coarse_scores), .options = {}, .lut = from_c(a.lut)};
    VSA_TRY(from_c("select", a.options, to.options));
    return select(c, to);
  });
}

vsa_status vsa_fine(const vsa_context* context, const vsa_fine_args* args) noexcept {
  return call("fine", context, args, [](const Context& c, const vsa_fine_args& a) {
    return fine(c, {.q = from_c(a.q),
                    .k = from_c(a.k),
                    .v = from_c(a.v),
                    .q_plan = from_c(a.q_plan),
                    .kv_plan = from_c(a.kv_plan),
                    .lut = from_c(a.lut),
                    .scale = from_c(a.scale),
                    .out = from_c(a.out),
                    .lse = from_c(a.lse)});
  });
}

vsa_status vsa_fine_backward(const vsa_context* context,
                             const vsa_fine_backward_args* args) noexcept {
  return call("fine_backward", context, args,
              [](const Context& c, const vsa_fine_backward_args& a) {
                return fine_backward(c, {.q = from_c(a.q),
                                         .k = from_c(a.k),
                                         .v = from_c(a.v),
                                         .q_plan = from_c(a.q_plan),
                                         .kv_plan = from_c(a.kv_plan),
                                         .lut = from_c(a.lut),
                                         .scale = from_c(a.scale),
                                         .out = from_c(a.out),
                                         .lse = from_c(a.lse),
                                         .dout = from_c(a.dout),
                                         .dq = from_c(a.dq),
                                         .dk = from_c(a.dk),
                                         .dv = from_c(a.dv)});
              });
}

vsa_status vsa_combine(const vsa_context* context, const vsa_combine_args* args) noexcept {
  return call("combine", context, args, [](const Context& c, const vsa_combine_args& a) {
    return combine(c, {.fine_out = from_c(a.fine_out),
                       .coarse_out = from_c(a.coarse_out),
                       .gate_coarse = from_c(a.gate_coarse),
                       .gate_fine = from_c(a.gate_fine),
                       .q_plan = from_c(a.q_plan),
                       .out = from_c(a.out)});
  });
}

vsa_status vsa_combine_backward(const vsa_context* context,
                                const vsa_combine_backward_args* args) noexcept {
  return call("combine_backward", context, args,
              [](const Context& c, const vsa_combine_backward_args& a) {
                return combine_backward(c, {.fine_out = from_c(a.fine_out),
                                            .coarse_out = from_c(a.coarse_out),
                                            .gate_coarse = from_c(a.gate_coarse),
                                            .gate_fine = from_c(a.gate_fine),
                                            .q_plan = from_c(a.q_plan),
                                            .dout = from_c(a.dout),
                                            .dfine_out = from_c(a.dfine_out),
                                            .dcoarse_out = from_c(a.dcoarse_out),
                                            .dgate_coarse = from_c(a.dgate_coarse),
                                            .dgate_fine = from_c(a.dgate_fine)});
              });
}

vsa_status vsa_attention_forward(const vsa_context* context,
                                 const vsa_attention_args* args) noexcept {
  return call("attention_forward", context, args,
              [](const Context& c, const vsa_attention_args& a) -> Status {
                AttentionArgs to{.q = from_c(a.q),
                                 .k = from_c(a.k),
                                 .v = from_c(a.v),
                                 .gate_coarse = from_c(a.gate_coarse),
                                 .gate_fine = from_c(a.gate_fine),
                                 .q_plan = from_c(a.q_plan),
                                 .kv_plan = from_c(a.kv_plan),
                                 .lut = from_c(a.lut),
                                 .scale = from_c(a.scale),
                                 .rounding = static_cast<CoarseRounding>(a.rounding),
                                 .out = from_c(a.out),
                                 .lse = from_c(a.lse),
                                 .fine_out = from_c(a.fine_out),
                                 .lut_out = from_c(a.lut_out)};
                if (to.lut.empty()) VSA_TRY(from_c("attention_forward", a.select, to.select));
                return attention_forward(c, to);
              });
}

vsa_status vsa_attention_backward(const vsa_context* context,
                                  const vsa_attention_backward_args* args) noexcept {
  return call("attention_backward", context, args,
              [](const Context& c, const vsa_attention_backward_args& a) {
                return attention_backward(c, {.q = from_c(a.q),
                                              .k = from_c(a.k),
                                              .v = from_c(a.v),
                                              .gate_coarse = from_c(a.gate_coarse),
                                              .gate_fine = from_c(a.gate_fine),
                                              .q_plan = from_c(a.q_plan),
                                              .kv_plan = from_c(a.kv_plan),
                                              .lut = from_c(a.lut),
                                              .scale = from_c(a.scale),
                                              .lse = from_c(a.lse),
                                              .fine_out = from_c(a.fine_out),
                                              .dout = from_c(a.dout),
                                              .dq = from_c(a.dq),
                                              .dk = from_c(a.dk),
                                              .dv = from_c(a.dv),
                                              .dgate_coarse = from_c(a.dgate_coarse),
                                              .dgate_fine = from_c(a.dgate_fine)});
              });
}

}  // extern "C"
