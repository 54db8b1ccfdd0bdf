#include "tests/support/test_tensor.h"

#include <algorithm>
#include <cmath>

#include "src/core/element.h"
#include "tests/support/random.h"

namespace vsa::test {
namespace {

constexpr std::byte kPoison{0xFF};
constexpr int64_t kGuard = 67;  // elements; odd, so vectors are never aligned by chance

/// Calls visit(b, h, s, d) in the order of values().
template <class Visit>
void for_each_element(const std::array<int64_t, 4>& shape, const Visit& visit) {
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t s = 0; s < shape[2]; ++s) {
        for (int64_t d = 0; d < shape[3]; ++d) visit(b, h, s, d);
      }
    }
  }
}

}  // namespace

TestTensor::TestTensor(DType dtype, Dims dims, Order order) : order_(order) {
  Dims stored = dims;
  start_ = kGuard;
  layout_ = order == Order::kBhsd ? Tensor::bhsd(nullptr, dtype, dims)
                                  : Tensor::bshd(nullptr, dtype, dims);
  if (order == Order::kFused) {
    stored.num_heads *= 3;
    start_ += static_cast<size_t>(dims.num_heads * dims.head_dim);
  }
  if (order == Order::kSliced) {
    stored.seq_len += 4;
    start_ += static_cast<size_t>(4 * dims.num_heads * dims.head_dim);
  }
  if (order != Order::kBhsd) layout_.stride = Tensor::bshd(nullptr, dtype, stored).stride;
  const int64_t elements =
      stored.batch * stored.num_heads * stored.seq_len * stored.head_dim + 2 * kGuard;
  memory_.assign(static_cast<size_t>(elements * size_bytes(dtype)), kPoison);
}

Tensor TestTensor::view() {
  Tensor t = layout_;
  t.data = memory_.data() + start_ * static_cast<size_t>(size_bytes(dtype()));
  return t;
}

ConstTensor TestTensor::view() const {
  ConstTensor t = layout_;
  t.data = memory_.data() + start_ * static_cast<size_t>(size_bytes(dtype()));
  return t;
}

Dims TestTensor::dims() const {
  return {layout_.shape[0], layout_.shape[1], layout_.shape[2], layout_.shape[3]};
}

size_t TestTensor::offset(int64_t b, int64_t h, int64_t s, int64_t d) const {
  return start_ + static_cast<size_t>(row_offset(layout_, b, h, s) + d);
}

double TestTensor::at(int64_t b, int64_t h, int64_t s, int64_t d) const {
  return load_element(memory_.data(), dtype(), static_cast<int64_t>(offset(b, h, s, d)));
}

void TestTensor::set(int64_t b, int64_t h, int64_t s, int64_t d, double x) {
  store_element(memory_.data(), dtype(), static_cast<int64_t>(offset(b, h, s, d)), x);
}

void TestTensor::set_row(int64_t b, int64_t h, int64_t s, double x) {
  for (int64_t d = 0; d < layout_.shape[3]; ++d) set(b, h, s, d, x);
}

std::vector<double> TestTensor::values() const {
  std::vector<double> all;
  all.reserve(static_cast<size_t>(layout_.num_elements()));
  for_each_element(layout_.shape, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
    all.push_back(at(b, h, s, d));
  });
  return all;
}

void TestTensor::set_values(const std::vector<double>& values) {
  size_t i = 0;
  for_each_element(layout_.shape, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
    set(b, h, s, d, values.at(i++));
  });
}

TestTensor TestTensor::as(DType dtype) const {
  TestTensor copy(dtype, dims(), order_);
  copy.set_values(values());
  return copy;
}

TestTensor TestTensor::map(const std::function<double(double)>& f) const {
  TestTensor copy(DType::kF64, dims(), order_);
  std::vector<double> mapped = values();
  std::ranges::transform(mapped, mapped.begin(), f);
  copy.set_values(mapped);
  return copy;
}

TestTensor TestTensor::abs() const {
  return map([](double x) { return std::abs(x); });
}

bool TestTensor::guards_intact() const {
  const auto width = static_cast<size_t>(size_bytes(dtype()));
  std::vector<bool> inside(memory_.size() / width, false);
  for_each_element(layout_.shape, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
    inside[offset(b, h, s, d)] = true;
  });
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (!inside[i / width] && memory_[i] != kPoison) return false;
  }
  return true;
}

TestTensor normal_tensor(DType dtype, Dims dims, uint64_t seed, Order order, double sigma) {
  TestTensor tensor(dtype, dims, order);
  std::vector<double> values =
      normal(dims.batch * dims.num_heads * dims.seq_len * dims.head_dim, seed);
  for (double& x : values) x *= sigma;
  tensor.set_values(values);
  return tensor;
}

TestTensor constant_tensor(DType dtype, Dims dims, double x, Order order) {
  TestTensor tensor(dtype, dims, order);
  fill(tensor, x);
  return tensor;
}

TestTensor batch_item(const TestTensor& x, int64_t b) {
  Dims dims = x.dims();
  dims.batch = 1;
  TestTensor one(x.dtype(), dims);
  for (int64_t h = 0; h < dims.num_heads; ++h) {
    for (int64_t s = 0; s < dims.seq_len; ++s) {
      for (int64_t d = 0; d < dims.head_dim; ++d) one.set(0, h, s, d, x.at(b, h, s, d));
    }
  }
  return one;
}

void fill_padding(TestTensor& tensor, const TilePlan& plan, double x) {
  std::vector<bool> valid(static_cast<size_t>(plan.seq_len()), false);
  for (int64_t t = 0; t < plan.num_tiles(); ++t) {
    for (const int32_t token : plan.tokens(t)) valid[static_cast<size_t>(token)] = true;
  }
  const Dims dims = tensor.dims();
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t s = 0; s < dims.seq_len; ++s) {
        if (!valid[static_cast<size_t>(s)]) tensor.set_row(b, h, s, x);
      }
    }
  }
}

}  // namespace vsa::test
