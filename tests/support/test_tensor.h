// Tensors for tests: memory in any order, surrounded by poison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::test {

/// How the elements of a [B, H, S, D] tensor lie in memory.
enum class Order {
  kBshd,    ///< contiguous [B, S, H, D]
  kBhsd,    ///< contiguous [B, H, S, D]
  kFused,   ///< the middle third of a fused QKV [B, S, 3, H, D]
  kSliced,  ///< x[:, 4:] of a contiguous [B, S + 4, H, D]: contiguous only if B = 1
};
inline constexpr Order kAllOrders[] = {Order::kBshd, Order::kBhsd, Order::kFused, Order::kSliced};

/// A tensor with memory of its own. All of that memory starts as poison (every bit set, a NaN in
/// every dtype): guard bands before and after, what lies between the strides, and the elements
/// themselves until they are written. So whatever reads too much, or writes too little, makes NaN,
/// and guards_intact() tells what writes too much. The first element is aligned to its own size and
/// no better.
class TestTensor {
 public:
  TestTensor() = default;
  TestTensor(DType dtype, Dims dims, Order order = Order::kBshd);

  Tensor view();
  ConstTensor view() const;
  operator Tensor() { return view(); }             // NOLINT(google-explicit-constructor)
  operator ConstTensor() const { return view(); }  // NOLINT(google-explicit-constructor)

  DType dtype() const { return layout_.dtype; }
  Order order() const { return order_; }
  Dims dims() const;
  double at(int64_t b, int64_t h, int64_t s, int64_t d) const;
  void set(int64_t b, int64_t h, int64_t s, int64_t d, double x);
  void set_row(int64_t b, int64_t h, int64_t s, double x);

  /// The elements in the order [B, H, S, D], whatever the memory order.
  std::vector<double> values() const;
  void set_values(const std::vector<double>& values);

  /// The same values in another dtype (rounded once) and the same order.
  TestTensor as(DType dtype) const;
  /// f(x) of every element x, as f64.
  TestTensor map(const std::function<double(double)>& f) const;
  /// The absolute values, as f64.
  TestTensor abs() const;

  /// True if nothing outside the tensor's elements was written.
  bool guards_intact() const;

 private:
  size_t offset(int64_t b, int64_t h, int64_t s, int64_t d) const;

  Order order_ = Order::kBshd;
  Tensor layout_;     // data is unset: copies must not share memory
  size_t start_ = 0;  // element (0, 0, 0, 0), in elements from the start of memory_
  std::vector<std::byte> memory_;
};

/// N(0, sigma^2) elements; the same values for the same seed in every order.
TestTensor normal_tensor(DType dtype, Dims dims, uint64_t seed, Order order = Order::kBshd,
                         double sigma = 1.0);

/// Every element x.
TestTensor constant_tensor(DType dtype, Dims dims, double x, Order order = Order::kBshd);

/// Batch item b of x, as a tensor of one item.
TestTensor batch_item(const TestTensor& x, int64_t b);

/// Sets the rows at positions that belong to no tile of the plan to x.
void fill_padding(TestTensor& tensor, const TilePlan& plan, double x);

}  // namespace vsa::test
