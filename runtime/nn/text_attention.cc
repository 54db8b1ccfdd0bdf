// Dense attention to a short list of keys. Host-only.
#include "runtime/nn/text_attention.h"

#include <algorithm>
#include <vector>

#include "runtime/nn/isa.h"
#include "runtime/nn/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/nn/text_attention.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "runtime/nn/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {
namespace {

/// One query row of one head. `scores` has room for pitch floats.
struct RowArgs {
  const float* q;     // [head_dim]
  const float* k;     // [head_dim, pitch]
  const float* v;     // [num_keys, value_pitch]
  const float* bias;  // [num_keys] or null
  int64_t num_keys, pitch, head_dim, value_pitch;
  float scale;
  float* scores;
  float* out;  // [head_dim]; may be q
};

/// sum_i factor[i] * column[i * pitch] for a vector of columns, i below n. Four sums: one alone
/// would wait for every addition.
template <class D>
HWY_INLINE hn::Vec<D> WeightedRows(D d, const float* factor, const float* rows, int64_t n,
                                   int64_t pitch) {
  auto sum0 = hn::Zero(d);
  auto sum1 = sum0;
  auto sum2 = sum0;
  auto sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const float* const row = rows + i * pitch;
    sum0 = hn::MulAdd(hn::Set(d, factor[i]), hn::LoadU(d, row), sum0);
    sum1 = hn::MulAdd(hn::Set(d, factor[i + 1]), hn::LoadU(d, row + pitch), sum1);
    sum2 = hn::MulAdd(hn::Set(d, factor[i + 2]), hn::LoadU(d, row + 2 * pitch), sum2);
    sum3 = hn::MulAdd(hn::Set(d, factor[i + 3]), hn::LoadU(d, row + 3 * pitch), sum3);
  }
  for (; i < n; ++i) {
    sum0 = hn::MulAdd(hn::Set(d, factor[i]), hn::LoadU(d, rows + i * pitch), sum0);
  }
  return hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
}

/// e^x for x <= 0, within 1 ulp. Highway's own gives 0 for NaN, which would hide a broken key.
template <class D, class V>
HWY_INLINE V ExpKeepingNan(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

float Largest(const float* x, int64_t n) {
  float largest = x[0];
  const hn::ScalableTag<float> d;
  int64_t i = 0;
  if (n >= Lanes()) {
    auto vector = hn::LoadU(d, x);
    for (i = Lanes(); i + Lanes() <= n; i += Lanes()) vector = hn::Max(vector, hn::LoadU(d, x + i));
    largest = hn::GetLane(hn::MaxOfLanes(d, vector));
  }
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  return largest;
}

void AttendRow(const RowArgs& a) {
  const hn::ScalableTag<float> d;
  float* const scores = a.scores;
  for (int64_t key = 0; key < a.pitch; key += Lanes()) {
    const auto sum = WeightedRows(d, a.q, a.k + key, a.head_dim, a.pitch);
    hn::StoreU(hn::Mul(sum, hn::Set(d, a.scale)), d, scores + key);
  }
  if (a.bias != nullptr) {
    ForEachVector(a.num_keys, [&](auto tag, int64_t j) {
      hn::StoreU(hn::Add(hn::LoadU(tag, scores + j), hn::LoadU(tag, a.bias + j)), tag, scores + j);
    });
  }
  const float largest = Largest(scores, a.num_keys);
  ForEachVector(a.num_keys, [&](auto tag, int64_t j) {
    const auto below = hn::Sub(hn::LoadU(tag, scores + j), hn::Set(tag, largest));
    hn::StoreU(ExpKeepingNan(tag, below), tag, scores + j);
  });
  const float sum =
      SumOver(a.num_keys, [&](auto tag, int64_t j) { return hn::LoadU(tag, scores + j); });
  const auto inverse = hn::Set(d, 1.0F / sum);
  for (int64_t i = 0; i < a.head_dim; i += Lanes()) {
    const auto out = hn::Mul(WeightedRows(d, scores, a.v + i, a.num_keys, a.value_pitch), inverse);
    if (i + Lanes() <= a.head_dim) {
      hn::StoreU(out, d, a.out + i);
    } else {
      HWY_ALIGN float last[hn::MaxLanes(d)];
      hn::Store(out, d, last);
      std::copy_n(last, a.head_dim - i, a.out + i);
    }
  }
}

}  // namespace

void Attend(const AttendArgs& args) {
  record_target(HWY_TARGET);
  const KeyValue& kv = *args.kv;
  std::vector<float> scores(static_cast<size_t>(kv.pitch()));
  for (int64_t i = 0; i < args.rows; ++i) {
    for (int64_t h = 0; h < kv.num_heads(); ++h) {
      const int64_t at = (i * kv.num_heads() + h) * kv.head_dim();
      const float* bias = args.bias == nullptr
                              ? nullptr
                              : args.bias + h * args.bias_head_stride + i * args.bias_row_stride;
      AttendRow({.q = args.q + at,
                 .k = kv.keys(h),
                 .v = kv.values(h),
                 .bias = bias,
                 .num_keys = kv.num_keys(),
                 .pitch = kv.pitch(),
                 .head_dim = kv.head_dim(),
                 .value_pitch = kv.value_pitch(),
                 .scale = args.scale,
                 .scores = scores.data(),
                 .out = args.out + at});
    }
  }
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::nn {
namespace {

/// Rows of keys and values are whole vectors of every instruction set.
constexpr int64_t kLanes = 16;

int64_t round_up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace

KeyValue::KeyValue(const float* k, const float* v, int64_t num_keys, int64_t num_heads,
                   int64_t head_dim)
    : num_keys_(num_keys),
      pitch_(round_up(num_keys)),
      num_heads_(num_heads),
      head_dim_(head_dim),
      value_pitch_(round_up(head_dim)),
      k_(num_heads * head_dim * pitch_),
      v_(num_heads * num_keys * value_pitch_) {
  std::ranges::fill(k_.span(), 0.0F);
  std::ranges::fill(v_.span(), 0.0F);
  for (int64_t j = 0; j < num_keys; ++j) {
    for (int64_t h = 0; h < num_heads; ++h) {
      const int64_t from = (j * num_heads + h) * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) {
        k_.data()[(h * head_dim + d) * pitch_ + j] = k[from + d];
      }
      std::copy_n(v + from, head_dim, v_.data() + (h * num_keys + j) * value_pitch_);
    }
  }
}

HWY_EXPORT(Attend);
void attend(const AttendArgs& args) { VSA_NN_DISPATCH(Attend)(args); }

}  // namespace vsa::nn
#endif
