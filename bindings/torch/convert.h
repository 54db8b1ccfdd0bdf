// From PyTorch's stable tensors to libvsa's arguments, and from its errors to exceptions.
// Host-only.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "bindings/torch/plans.h"
#include "vsa/vsa.h"

namespace vsa::torch_ops {

using TorchTensor = torch::stable::Tensor;
using Ints = std::vector<int64_t>;
/// A list of an operator that may be empty. The package passes None then, because AOTInductor of
/// PyTorch 2.11 loses an empty list of SymInt between an exported graph and the operator.
using OptionalInts = std::optional<Ints>;
using torch::headeronly::ScalarType;

/// A std::runtime_error that starts with the code, "InvalidArgument: ...". The stable ABI has no
/// exceptions for the codes, and which of the standard's PyTorch tells apart differs between its
/// versions, so vsa_torch makes the right Python exception from the text.
void raise_if_error(const Status& status);

/// The value, or the exception of its Status.
template <class T>
T take(Result<T> result) {
  raise_if_error(result.status());
  return std::move(result).value();
}

/// Throws the exception of InvalidArgument, `[operation] argument: expected X, got Y`.
[[noreturn]] void reject(std::string_view operation, std::string_view argument,
                         std::string_view expected, std::string_view got);

const Ints& or_empty(const OptionalInts& list);

/// The backend for tensors in that memory and of that dtype (nothing: one that libvsa has not),
/// found by the backends' traits. In host memory f64 runs on the reference backend, all else on the
/// cpu backend.
BackendId backend_for(MemoryKind memory, std::optional<DType> dtype);

/// How calls on such a tensor run: in host memory with PyTorch's number of threads, on a GPU on
/// PyTorch's current stream.
Context context_of(const TorchTensor& like);

/// Runs a call of libvsa where `like` is; what it needs of device memory comes from PyTorch's
/// allocator, whose memory belongs to the stream and so may be given back before the call has run.
template <class Args>
void run(Status (*call)(const Context&, const Args&), const TorchTensor& like, const Args& args);

/// The workspace of one call from PyTorch's allocator, on the device of `like`.
class WorkspaceTensor {
 public:
  explicit WorkspaceTensor(const TorchTensor& like) : like_(like) {}
  /// Valid while this object is.
  WorkspaceSource source() { return {.take = take, .user = this}; }

 private:
  static Workspace take(void* self, int64_t size_bytes);
  const TorchTensor& like_;
  std::optional<TorchTensor> memory_;
};

/// The dtype of pooled tensors and of lse: f64 where the query is, else f32.
ScalarType tile_dtype(const TorchTensor& query);

/// Conversions for one call: names its operation in messages, and refuses tensors that are not on
/// the device of `like`.
class Arguments {
 public:
  Arguments(std::string_view operation, const TorchTensor& like)
      : operation_(operation), device_(like.device()) {}

  /// A tensor [B, S, H, D] of any strides.
  Tensor bshd(std::string_view name, const TorchTensor& t) const;
  /// A tensor [B, H, S, D] of any strides.
  Tensor bhsd(std::string_view name, const TorchTensor& t) const;
  /// lse [B, H, S] as libvsa has it, [B, H, S, 1].
  Tensor lse(std::string_view name, const TorchTensor& t) const;
  /// int32 tables [B, H, Nq, pitch] and [B, H, Nq], contiguous.
  Lut lut(const TorchTensor& index, const TorchTensor& count) const;
  /// The tensor [B, S, H, D], or the constant where there is none.
  Gate gate(std::string_view name, const std::optional<TorchTensor>& t, double constant) const;
  /// The plan of `grid` in raster order behind the prefix segments. `tile_shape` are three edges,
  /// and for an order other than raster a fourth number, that of the TokenOrder.
  SharedPlan plan(const Ints& grid, const Ints& tile_shape, const Ints& prefix) const;
  /// The same, or with `tile_len` the plan of a sequence in tile order; then the fourth number may
  /// be kCompact, for a sequence without padding.
  SharedPlan plan_or_tiled(const Ints& grid, const Ints& tile_shape, const Ints& prefix,
                           const Ints& tile_len) const;
  static constexpr int64_t kCompact = 3;
  /// "none" or "bfloat16".
  CoarseRounding rounding(std::string_view name) const;
  /// All prefix tiles are kept by every row, and keep everything. The lists must outlive the
  /// result.
  SelectOptions select(int64_t topk, const TilePlan& plan,
                       const std::vector<int32_t>& prefix) const;

 private:
  Tensor tensor(std::string_view name, const TorchTensor& t, std::array<int, 4> axes) const;
  /// @param last_order  the largest fourth number that has a meaning here
  void check_tile_shape(const Ints& tile_shape, int64_t last_order) const;
  void check_device(std::string_view name, const TorchTensor& t) const;
  std::string_view operation_;
  torch::stable::Device device_;
};

/// 0 to num_prefix_tiles - 1.
std::vector<int32_t> prefix_tiles(const TilePlan& plan);
std::optional<float> scale_of(const std::optional<double>& scale);

/// New memory on the device of `like`, contiguous; throws the exception of OutOfMemory.
TorchTensor new_tensor(const TorchTensor& like, const Ints& shape, ScalarType dtype);
TorchTensor new_like(const TorchTensor& like);
/// What an optional output is where it was not asked for: shape [0].
TorchTensor nothing(const TorchTensor& like);

template <class Args>
void run(Status (*call)(const Context&, const Args&), const TorchTensor& like, const Args& args) {
  WorkspaceTensor workspace(like);
  Context context = context_of(like);
  context.workspace_source = workspace.source();
  raise_if_error(call(context, args));
}

}  // namespace vsa::torch_ops
