// Between the types that weights are stored in and f32. Host-only.
#include "runtime/nn/convert.h"

#include <algorithm>
#include <cstring>

#include "runtime/nn/isa.h"
#include "runtime/nn/targets.h"
#include "runtime/nn/weight_change.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/nn/convert.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "runtime/nn/vectors-inl.h"
#include "vsa/half.h"

HWY_BEFORE_NAMESPACE();
namespace vsa::nn::HWY_NAMESPACE {
namespace {

// A file may put numbers at any address: they are copied into a vector, which costs no instruction.
template <class T, class D>
HWY_INLINE hn::Vec<hn::Rebind<T, D>> LoadBytes(D /*d*/, const std::byte* from) {
  const hn::Rebind<T, D> d16;
  HWY_ALIGN T values[hn::MaxLanes(d16)];
  std::memcpy(values, from, hn::Lanes(d16) * sizeof(T));
  return hn::Load(d16, values);
}

template <class D>
HWY_INLINE hn::Vec<D> WidenBf16(D d, const std::byte* from) {
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, LoadBytes<uint16_t>(d, from))));
}

// Highway's conversion in software knows neither infinity nor NaN.
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
#define VSA_NN_SOFTWARE_F16 1
#else
#define VSA_NN_SOFTWARE_F16 0
#endif

template <class D>
HWY_INLINE hn::Vec<D> WidenF16(D d, const std::byte* from) {
#if VSA_NN_SOFTWARE_F16
  HWY_ALIGN float widened[hn::MaxLanes(d)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    F16 half;
    std::memcpy(&half, from + i * sizeof(half), sizeof(half));
    widened[i] = static_cast<float>(half);
  }
  return hn::Load(d, widened);
#else
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::BitCast(d16, LoadBytes<uint16_t>(d, from)));
#endif
}

/// Numbers that F16 holds.
template <class D>
HWY_INLINE void NarrowF16([[maybe_unused]] D d, hn::Vec<D> x, uint16_t* to) {
#if VSA_NN_SOFTWARE_F16
  HWY_ALIGN float values[hn::MaxLanes(d)];
  hn::Store(x, d, values);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = F16(values[i]).bits;
#else
  const hn::Rebind<hwy::float16_t, D> half;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::BitCast(d16, hn::DemoteTo(half, x)), d16, to);
#endif
}
#undef VSA_NN_SOFTWARE_F16

/// Numbers that BF16 holds.
template <class D>
HWY_INLINE void NarrowBf16(D /*d*/, hn::Vec<D> x, uint16_t* to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::BitCast(d32, x))), d16, to);
}

}  // namespace

void Widen(io::StorageType type, const std::byte* from, int64_t n, float scale, float* to) {
  record_target(HWY_TARGET);
  const auto convert = [&](int64_t size, const auto& load) {
    ForEachVector(n, [&](auto d, int64_t i) {
      hn::StoreU(hn::Mul(load(d, from + i * size), hn::Set(d, scale)), d, to + i);
    });
  };
  switch (type) {
    case io::StorageType::kBF16:
      convert(2, [](auto d, const std::byte* at) { return WidenBf16(d, at); });
      return;
    case io::StorageType::kF16:
      convert(2, [](auto d, const std::byte* at) { return WidenF16(d, at); });
      return;
    case io::StorageType::kF32:
      convert(4, [](auto d, const std::byte* at) { return LoadBytes<float>(d, at); });
      return;
    default:  // F64: the finder of weights refuses the others
      for (int64_t i = 0; i < n; ++i) {
        double value = 0.0;
        std::memcpy(&value, from + i * 8, sizeof(value));
        to[i] = static_cast<float>(value) * scale;
      }
  }
}

void Narrow(io::StorageType type, const float* from, int64_t n, uint16_t* to) {
  record_target(HWY_TARGET);
  ForEachVector(n, [&](auto d, int64_t i) {
    const auto x = hn::LoadU(d, from + i);
    if (type == io::StorageType::kBF16) {
      NarrowBf16(d, x, to + i);
    } else {
      NarrowF16(d, x, to + i);
    }
  });
}

}  // namespace vsa::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vsa::nn {
namespace {

/// Numbers that a thread takes at a time: enough to outweigh waking it, and 64 KiB of f32, which
/// stay in the L1 and L2 caches.
constexpr int64_t kPart = 16384;

/// Calls fn(begin, size) for parts of [0, n).
template <class Fn>
void for_parts(int64_t n, const Fn& fn) {
  const int64_t parts = (n + kPart - 1) / kPart;
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int64_t i = 0; i < parts; ++i) fn(i * kPart, std::min(kPart, n - i * kPart));
}

}  // namespace

HWY_EXPORT(Widen);
void widen(io::StorageType type, const std::byte* from, int64_t n, float scale, float* to) {
  VSA_NN_DISPATCH(Widen)(type, from, n, scale, to);
}

void widen_parallel(io::StorageType type, const std::byte* from, int64_t n, float scale,
                    float* to) {
  const auto widen_part = VSA_NN_DISPATCH(Widen);
  for_parts(n, [&](int64_t begin, int64_t size) {
    widen_part(type, from + begin * io::size_bytes(type), size, scale, to + begin);
  });
}

HWY_EXPORT(Narrow);
void narrow_parallel(io::StorageType type, const float* from, int64_t n, std::byte* to) {
  const auto narrow_part = VSA_NN_DISPATCH(Narrow);
  auto* const out = reinterpret_cast<uint16_t*>(to);
  for_parts(
      n, [&](int64_t begin, int64_t size) { narrow_part(type, from + begin, size, out + begin); });
}

std::vector<float> values(const Weight& weight) {
  std::vector<float> all(weight.empty() ? 0 : static_cast<size_t>(weight.num_elements()));
  const ChangedWeight used = changed(weight);
  widen(used.weight.type, used.weight.bytes.data(), std::ssize(all), used.weight.scale, all.data());
  return all;
}

}  // namespace vsa::nn
#endif
