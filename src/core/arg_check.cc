// Checks of contexts, plans, tensors and gates. Host-only.
#include "src/core/arg_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vsa {
namespace {

std::string to_string(DTypes dtypes) {
  std::string text;
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    if (dtypes.contains(t)) text += fmt::format("{}{}", text.empty() ? "" : "|", name(t));
  }
  return text;
}

/// "[B,H,1024,D]": open extents by their letters.
std::string to_string(const Shape& shape) {
  constexpr std::array kLetters{"B", "H", "S", "D"};
  std::string text = "[";
  for (size_t i = 0; i < 4; ++i) {
    text += i == 0 ? "" : ",";
    text += shape[i] == kAnyExtent ? kLetters[i] : std::to_string(shape[i]);
  }
  return text + "]";
}

bool matches(const Shape& actual, const Shape& expected) {
  for (size_t i = 0; i < 4; ++i) {
    if (expected[i] != kAnyExtent && actual[i] != expected[i]) return false;
  }
  return true;
}

/// (extent - 1) * |stride| summed over the axes, times the element size, fits in int64.
bool spans_fit(const ConstTensor& t) {
  int64_t elements = 1;
  int64_t total = size_bytes(t.dtype);
  for (size_t i = 0; i < 4; ++i) {
    if (__builtin_mul_overflow(elements, t.shape[i], &elements)) return false;
    if (t.shape[i] == 1) continue;
    int64_t span = 0;
    if (t.stride[i] == INT64_MIN) return false;
    if (__builtin_mul_overflow(std::abs(t.stride[i]), size_bytes(t.dtype), &span) ||
        __builtin_mul_overflow(span, t.shape[i] - 1, &span) ||
        __builtin_add_overflow(total, span, &total)) {
      return false;
    }
  }
  return !__builtin_mul_overflow(elements, size_bytes(t.dtype), &elements);
}

/// "of 64 or 128", or "that is a multiple of 8 up to 256".
std::string head_dims(const BackendTraits& traits) {
  constexpr int64_t kFew = 4;
  const int64_t step = traits.head_dim_step;
  if (traits.max_head_dim / step > kFew) {
    return fmt::format("that is a multiple of {} up to {}", step, traits.max_head_dim);
  }
  std::string text = fmt::format("of {}", step);
  for (int64_t d = 2 * step; d <= traits.max_head_dim; d += step) {
    text += fmt::format("{} {}", d + step > traits.max_head_dim ? " or" : ",", d);
  }
  return text;
}

std::string strides(const ConstTensor& t) {
  return fmt::format("strides [{},{},{},{}] for shape [{},{},{},{}]", t.stride[0], t.stride[1],
                     t.stride[2], t.stride[3], t.shape[0], t.shape[1], t.shape[2], t.shape[3]);
}

}  // namespace

Status ArgCheck::fault(std::string_view argument, std::string_view expected, std::string_view got,
                       std::string_view hint) const {
  return invalid_argument(fmt::format("[{}] {}: expected {}, got {}{}{}", operation_, argument,
                                      expected, got, hint.empty() ? "" : "; ", hint));
}

DTypes ArgCheck::token_or_tile_dtypes() const {
  constexpr auto kNone = static_cast<DType>(-1);  // in no set
  const auto in = [&](DType t) {
    return token_dtypes().contains(t) || tile_dtypes().contains(t) ? t : kNone;
  };
  return {in(DType::kF32), in(DType::kBF16), in(DType::kF16), in(DType::kF64)};
}

Status ArgCheck::context() const {
  if (context_.num_threads < 0 || context_.num_threads > kMaxThreads) {
    return fault("num_threads", fmt::format("0 (the default) to {}", kMaxThreads),
                 std::to_string(context_.num_threads));
  }
  return {};
}

Status ArgCheck::plan(std::string_view argument, const TilePlan* plan) const {
  if (plan == nullptr) return fault(argument, "a tile plan", "null");
  if (plan->num_tiles() < 1) return fault(argument, "a tile plan", "one that was moved from");
  return {};
}

Status ArgCheck::rounding(CoarseRounding rounding) const {
  if (rounding == CoarseRounding::kNone || rounding == CoarseRounding::kBf16) return {};
  return fault("rounding", "kNone or kBf16", std::to_string(static_cast<int>(rounding)));
}

Status ArgCheck::scale(const std::optional<float>& scale) const {
  if (scale && !std::isfinite(*scale)) {
    return fault("scale", "a finite number", fmt::format("{}", *scale),
                 "leave it out for 1/sqrt(head_dim)");
  }
  return {};
}

Status ArgCheck::head_dim(std::string_view argument, int64_t head_dim) const {
  return head_dim_of(traits_, argument, head_dim);
}

Status ArgCheck::row_head_dim(std::string_view argument, int64_t head_dim) const {
  BackendTraits traits = traits_;
  traits.head_dim_step = std::min(traits.head_dim_step, kRowStep);
  return head_dim_of(traits, argument, head_dim);
}

Status ArgCheck::head_dim_of(const BackendTraits& traits, std::string_view argument,
                             int64_t head_dim) const {
  if (traits.takes_head_dim(head_dim)) return {};
  return unsupported(fmt::format("[{}] {}: expected a head_dim {} on the {} backend, got {}; {}",
                                 operation_, argument, head_dims(traits), name(context_.backend),
                                 head_dim, traits.head_dim_remedy));
}

Status ArgCheck::head_groups(std::string_view argument, int64_t num_heads,
                             int64_t num_kv_heads) const {
  if (num_heads % num_kv_heads == 0) return {};
  return fault(argument, fmt::format("a number of heads that divides {}", num_heads),
               std::to_string(num_kv_heads));
}

Status ArgCheck::tensor(std::string_view argument, const ConstTensor& t, DTypes dtypes,
                        const Shape& shape, std::string_view hint) const {
  // Only made for a message: a call checks a dozen tensors, and making this text takes longer than
  // that.
  const auto expected = [&] { return fmt::format("{} {}", to_string(dtypes), to_string(shape)); };
  if (t.data == nullptr) return fault(argument, expected(), "null data", hint);
  if (size_bytes(t.dtype) == 0) {
    return fault(argument, expected(), fmt::format("dtype {}", static_cast<int>(t.dtype)), hint);
  }
  // An argument that may be 16-bit has a row for each token. Any other one has a row for each tile,
  // or may be of either kind.
  const bool takes_dtype =
      dtypes.contains(t.dtype) ||
      (dtypes.contains(DType::kBF16) || dtypes.contains(DType::kF16)
           ? traits_.token_dtypes.contains(t.dtype)
           : traits_.token_dtypes.contains(t.dtype) || traits_.tile_dtypes.contains(t.dtype));
  if (!takes_dtype) {
    return unsupported(fmt::format(
        "[{}] {}: expected {} on the {} backend, got {}; {}", operation_, argument, expected(),
        name(context_.backend), vsa::to_string(t),
        t.dtype == DType::kF64 ? "the reference backend takes f64" : traits_.dtype_remedy));
  }
  if (!dtypes.contains(t.dtype) || !matches(t.shape, shape)) {
    return fault(argument, expected(), vsa::to_string(t), hint);
  }
  for (const int64_t extent : t.shape) {
    if (extent < 1) return fault(argument, "extents of at least 1", vsa::to_string(t), hint);
  }
  return memory(argument, t);
}

Status ArgCheck::memory(std::string_view argument, const ConstTensor& t) const {
  if (t.shape[3] > 1 && t.stride[3] != 1) {
    return fault(argument, "stride 1 on the last axis", std::to_string(t.stride[3]));
  }
  if (!spans_fit(t) || !is_addressable(region_of(argument, t))) {
    return fault(argument, "strides that stay inside the address space", strides(t));
  }
  if (reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(size_bytes(t.dtype)) != 0) {
    return fault(argument, fmt::format("an address that is a multiple of {}", size_bytes(t.dtype)),
                 fmt::format("{}", t.data));
  }
  return traits_.token_dtypes.contains(t.dtype) ? aligned_rows(argument, t) : Status();
}

Status ArgCheck::aligned_rows(std::string_view argument, const ConstTensor& t) const {
  const int64_t bytes = traits_.row_bytes;
  if (t.shape[3] * size_bytes(t.dtype) < bytes) return {};
  bool aligned = reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(bytes) == 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    aligned = aligned && (t.shape[axis] == 1 || t.stride[axis] * size_bytes(t.dtype) % bytes == 0);
  }
  if (aligned) return {};
  return unsupported(fmt::format(
      "[{}] {}: expected rows at multiples of {} bytes on the {} backend, got address {} and {}; "
      "copy it",
      operation_, argument, bytes, name(context_.backend), t.data, strides(t)));
}

Status ArgCheck::input(std::string_view argument, const ConstTensor& t, DTypes dtypes,
                       const Shape& shape, std::string_view hint) {
  VSA_TRY(tensor(argument, t, dtypes, shape, hint));
  inputs_.push_back(region_of(argument, t));
  return {};
}

Status ArgCheck::optional_input(std::string_view argument, const ConstTensor& t, DTypes dtypes,
                                const Shape& shape) {
  return t.empty() ? Status() : input(argument, t, dtypes, shape);
}

Status ArgCheck::output(std::string_view argument, const Tensor& t, DTypes dtypes,
                        const Shape& shape) {
  VSA_TRY(tensor(argument, t, dtypes, shape, {}));
  const Region region = region_of(argument, t);
  if (!is_injective(region)) {
    return fault(argument, "positive strides that keep its elements apart", strides(t));
  }
  outputs_.push_back(region);
  return {};
}

Status ArgCheck::optional_output(std::string_view argument, const Tensor& t, DTypes dtypes,
                                 const Shape& shape) {
  return t.empty() ? Status() : output(argument, t, dtypes, shape);
}

Status ArgCheck::gate(std::string_view argument, const Gate& gate, DTypes dtypes,
                      const Shape& shape) {
  if (!gate.is_set()) {
    return fault(argument, "a tensor or a constant", "an unset gate",
                 "what an absent gate means differs between models, so say 0 or 1");
  }
  if (gate.is_tensor()) return input(argument, gate.as_tensor(), dtypes, shape);
  if (!std::isfinite(gate.as_constant())) {
    return fault(argument, "a finite constant", fmt::format("{}", gate.as_constant()));
  }
  return {};
}

Status ArgCheck::separate_outputs() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto check = [&](const Region& other) -> Status {
      if (!overlap(outputs_[i], other)) return {};
      return fault(outputs_[i].argument, "memory of its own",
                   fmt::format("an overlap with {}", other.argument));
    };
    for (const Region& input : inputs_) VSA_TRY(check(input));
    for (size_t j = 0; j < i; ++j) VSA_TRY(check(outputs_[j]));
  }
  return {};
}

}  // namespace vsa
