// C ABI: tensors, the seven stages and the whole operator, each handed to its C++ twin. Host-only.
#include <algorithm>
#include <type_traits>

#include "src/api/c_guard.h"
#include "src/core/stage_list.h"

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

// From C to C++, field by field. `args` is the struct that the field is part of.
template <class CArgs>
Status from_c(std::string_view, const CArgs&, const vsa_tensor& t, Tensor& to) {
  to = from_c(t);
  return {};
}
template <class CArgs>
Status from_c(std::string_view, const CArgs&, const vsa_const_tensor& t, ConstTensor& to) {
  to = from_c(t);
  return {};
}
/// A gate of unknown kind becomes an unset one, which every call refuses.
template <class CArgs>
Status from_c(std::string_view, const CArgs&, const vsa_gate& g, Gate& to) {
  if (g.kind == VSA_GATE_CONSTANT) to = Gate::constant(g.constant);
  if (g.kind == VSA_GATE_TENSOR) to = Gate::tensor(from_c(g.tensor));
  if (g.kind != VSA_GATE_CONSTANT && g.kind != VSA_GATE_TENSOR) to = Gate();
  return {};
}
template <class CArgs, class CTable, class Table>
requires requires(CTable l) { l.pitch; }
Status from_c(std::string_view, const CArgs&, const CTable& l, Table& to) {
  to = {l.index, l.count, {l.batch, l.num_heads, l.num_q_tiles, l.pitch}};
  return {};
}
template <class CArgs>
Status from_c(std::string_view, const CArgs&, const vsa_scale& s, std::optional<float>& to) {
  to = s.is_set != 0 ? std::optional(s.value) : std::nullopt;
  return {};
}
template <class CArgs>
Status from_c(std::string_view, const CArgs&, const vsa_plan* plan, const TilePlan*& to) {
  to = plan == nullptr ? nullptr : &plan->plan;
  return {};
}
/// Numbers, and enums, whose range the call itself checks.
template <class CArgs, class From, class To>
requires std::is_arithmetic_v<From> Status from_c(std::string_view, const CArgs&,
                                                  const From& number, To& to) {
  to = static_cast<To>(number);
  return {};
}

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
/// The options of the selection, which are not read if a table is given. The call itself checks the
/// content of their lists.
template <class CArgs>
Status from_c(std::string_view operation, const CArgs& args, const vsa_select_options& o,
              SelectOptions& to) {
  if constexpr (std::is_same_v<decltype(args.lut), vsa_const_lut>) {
    if (args.lut.index != nullptr) return {};
  }
  return from_c(operation, o, to);
}

Context from_c(const vsa_context& context) {
  return {.backend = static_cast<BackendId>(context.backend),
          .num_threads = context.num_threads,
          .stream = context.stream,
          .workspace = {context.workspace, context.workspace_bytes},
          .workspace_query = context.workspace_query};
}

/// The struct of arguments that an entrance takes.
template <class Entrance>
struct ArgsOf;
template <class Args>
struct ArgsOf<vsa_status (*)(const vsa_context*, const Args*) noexcept> {
  using Type = Args;
};

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

#define F(field) VSA_TRY(from_c(operation, *from, from->field, to.field));
#define VSA_C_ENTRANCE(stage, Args, fields)                                           \
  vsa_status vsa_##stage(const vsa_context* context,                                  \
                         const ArgsOf<decltype(&vsa_##stage)>::Type* from) noexcept { \
    return guarded([&]() -> Status {                                                  \
      constexpr std::string_view operation = #stage;                                  \
      VSA_TRY(check_struct(operation, "context", context));                           \
      VSA_TRY(check_struct(operation, "args", from));                                 \
      Args to;                                                                        \
      fields;                                                                         \
      return stage(from_c(*context), to);                                             \
    });                                                                               \
  }
VSA_FOR_EACH_STAGE(VSA_C_ENTRANCE)
#undef F

}  // extern "C"
