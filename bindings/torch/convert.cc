// Conversions of the PyTorch operators. Host-only.
#include "bindings/torch/convert.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <stdexcept>
#include <string>

namespace vsa::torch_ops {
namespace {

std::optional<DType> dtype_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return DType::kF32;
    case ScalarType::BFloat16:
      return DType::kBF16;
    case ScalarType::Half:
      return DType::kF16;
    case ScalarType::Double:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

DType dtype_of(ScalarType type, std::string_view operation, std::string_view name) {
  if (const std::optional<DType> dtype = dtype_of(type)) return *dtype;
  reject(operation, name, "float32, bfloat16, float16 or float64", "another dtype");
}

/// The backend for tensors in that memory, by the traits of all backends. A backend that is
/// compiled in is preferred, then one that takes the dtype, then the last in the list, because the
/// slow reference comes first.
BackendId choose_backend(MemoryKind memory, std::optional<DType> dtype) {
  BackendId best = BackendId::kReference;
  int best_rank = -1;
  // backends() would look for devices, and a call on the CPU must not initialise a driver.
  for (const BackendId id : kBackendIds) {
    const Result<BackendTraits> traits = backend_traits(id);
    if (!traits.ok() || traits->memory != memory) continue;
    const bool takes_it = dtype && traits->token_dtypes.contains(*dtype);
    const int rank = 2 * int{implements(id, "attention_forward")} + int{takes_it};
    if (rank < best_rank) continue;
    best = id;
    best_rank = rank;
  }
  return best;
}

/// PyTorch's current stream. Its function is in libtorch_cuda.so, which a PyTorch for CPUs lacks,
/// so it is looked up in what `import torch` has loaded instead of linked.
void* current_stream(int32_t device) {
  using Get = int32_t (*)(int32_t device_index, void** stream);
  static const auto get = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    void* symbol = library ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr;
    return reinterpret_cast<Get>(symbol);
  }();
  void* stream = nullptr;
  if (get == nullptr || get(device, &stream) != 0) {
    throw std::runtime_error("DeviceError: PyTorch did not tell its current CUDA stream");
  }
  return stream;
}

/// The plans of recent calls. A training run meets a handful of shapes again and again; what is
/// kept is at most 16 MiB, 4 bytes a token.
PlanCache& recent_plans() {
  static PlanCache plans(/*max_plans=*/32, /*max_tokens=*/int64_t{1} << 22);
  return plans;
}

enum PlanKind : int64_t { kGridPlan, kOrderedPlan, kTiledPlan, kCompactPlan };

PlanCache::Description description(PlanKind kind, std::initializer_list<const Ints*> lists) {
  PlanCache::Description numbers{kind};
  for (const Ints* list : lists) numbers.insert(numbers.end(), list->begin(), list->end());
  return numbers;
}

Grid grid_of(const Ints& e) { return {.f = e[0], .h = e[1], .w = e[2]}; }
TileShape tile_of(const Ints& e) { return {.f = e[0], .h = e[1], .w = e[2]}; }
Tiling tiling_of(const Ints& e) {
  return {.order = e.size() > 3 ? static_cast<TokenOrder>(e[3]) : TokenOrder::kRaster,
          .tile = tile_of(e)};
}

}  // namespace

const Ints& or_empty(const OptionalInts& list) {
  static const Ints kEmpty;
  return list ? *list : kEmpty;
}

void raise_if_error(const Status& status) {
  if (status.ok()) return;
  throw std::runtime_error(std::string(name(status.code())) + ": " + status.message());
}

void reject(std::string_view operation, std::string_view argument, std::string_view expected,
            std::string_view got) {
  std::string text = "[";
  text.append(operation).append("] ").append(argument).append(": expected ").append(expected);
  raise_if_error(invalid_argument(text.append(", got ").append(got)));
  std::abort();  // not reached: that was an error
}

BackendId backend_for(MemoryKind memory, std::optional<DType> dtype) {
  constexpr int kNumChoices = 5;  // one for each dtype, and none
  static const auto all = [] {
    std::array<std::array<BackendId, kNumChoices>, 2> chosen{};
    for (const MemoryKind kind : {MemoryKind::kHost, MemoryKind::kDevice}) {
      auto& of_kind = chosen[static_cast<size_t>(kind)];
      of_kind.back() = choose_backend(kind, std::nullopt);
      for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
        of_kind[static_cast<size_t>(type)] = choose_backend(kind, type);
      }
    }
    return chosen;
  }();
  return all[static_cast<size_t>(memory)][dtype ? static_cast<size_t>(*dtype) : kNumChoices - 1];
}

Context context_of(const TorchTensor& like) {
  const MemoryKind memory = like.is_cuda() ? MemoryKind::kDevice : MemoryKind::kHost;
  Context context{.backend = backend_for(memory, dtype_of(like.scalar_type()))};
  if (memory == MemoryKind::kDevice) {
    context.stream = current_stream(like.get_device_index());
  } else {
    const auto threads = static_cast<int>(torch::stable::get_num_threads());
    context.num_threads = std::min(threads, kMaxThreads);
  }
  return context;
}

ScalarType tile_dtype(const TorchTensor& query) {
  return query.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
}

Tensor Arguments::tensor(std::string_view name, const TorchTensor& t,
                         std::array<int, 4> axes) const {
  check_device(name, t);
  if (t.dim() != 4) reject(operation_, name, "4 axes", std::to_string(t.dim()));
  Tensor view;
  view.data = t.data_ptr();
  view.dtype = dtype_of(t.scalar_type(), operation_, name);
  for (size_t i = 0; i < 4; ++i) {
    view.shape[i] = t.size(axes[i]);
    view.stride[i] = t.stride(axes[i]);
  }
  return view;
}

void Arguments::check_device(std::string_view name, const TorchTensor& t) const {
  if (t.device() != device_) reject(operation_, name, "the device of the first tensor", "another");
}

Tensor Arguments::bshd(std::string_view name, const TorchTensor& t) const {
  return tensor(name, t, {0, 2, 1, 3});
}

Tensor Arguments::bhsd(std::string_view name, const TorchTensor& t) const {
  return tensor(name, t, {0, 1, 2, 3});
}

Tensor Arguments::lse(std::string_view name, const TorchTensor& t) const {
  check_device(name, t);
  if (t.dim() != 3) reject(operation_, name, "[B,H,S]", std::to_string(t.dim()) + " axes");
  Tensor view;
  view.data = t.data_ptr();
  view.dtype = dtype_of(t.scalar_type(), operation_, name);
  view.shape = {t.size(0), t.size(1), t.size(2), 1};
  view.stride = {t.stride(0), t.stride(1), t.stride(2), 1};
  return view;
}

Lut Arguments::lut(const TorchTensor& index, const TorchTensor& count) const {
  for (const auto* t : {&index, &count}) {
    const bool is_index = t == &index;
    const std::string_view name = is_index ? "lut" : "lut_count";
    check_device(name, *t);
    if (t->scalar_type() != ScalarType::Int) reject(operation_, name, "int32", "another dtype");
    if (t->dim() != (is_index ? 4 : 3)) {
      reject(operation_, name, is_index ? "[B,H,Nq,pitch]" : "[B,H,Nq]",
             std::to_string(t->dim()) + " axes");
    }
    if (!t->is_contiguous()) reject(operation_, name, "contiguous memory", "strides");
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (index.size(axis) != count.size(axis)) {
      reject(operation_, "lut_count", "extents of lut without the last",
             std::to_string(count.size(axis)) + " instead of " + std::to_string(index.size(axis)));
    }
  }
  return {.index = static_cast<int32_t*>(index.data_ptr()),
          .count = static_cast<int32_t*>(count.data_ptr()),
          .dims = {.batch = index.size(0),
                   .num_heads = index.size(1),
                   .num_q_tiles = index.size(2),
                   .pitch = index.size(3)}};
}

Gate Arguments::gate(std::string_view name, const std::optional<TorchTensor>& t,
                     double constant) const {
  return t ? Gate::tensor(bshd(name, *t)) : Gate::constant(static_cast<float>(constant));
}

SharedPlan Arguments::plan(const Ints& grid, const Ints& tile_shape, const Ints& prefix) const {
  if (grid.size() != 3) reject(operation_, "grid", "(f, h, w)", std::to_string(grid.size()));
  check_tile_shape(tile_shape, std::ssize(kTokenOrders) - 1);
  // Three edges and four numbers differ in the plan's kind, as the list has no length of its own.
  const PlanKind kind = tile_shape.size() == 3 ? kGridPlan : kOrderedPlan;
  return recent_plans().get(description(kind, {&grid, &tile_shape, &prefix}), [&] {
    return take(TilePlan::packed(prefix, grid_of(grid), tiling_of(tile_shape)));
  });
}

SharedPlan Arguments::plan_or_tiled(const Ints& grid, const Ints& tile_shape, const Ints& prefix,
                                    const Ints& tile_len) const {
  if (tile_len.empty()) return plan(grid, tile_shape, prefix);
  if (!grid.empty() || !prefix.empty()) {
    reject(operation_, "grid", "neither grid nor prefix where tile_len is given", "both");
  }
  check_tile_shape(tile_shape, kCompact);
  const bool is_compact = tile_shape.size() == 4 && tile_shape[3] == kCompact;
  if (tile_shape.size() == 4 && !is_compact) {
    reject(operation_, "tile_shape", "the order of a sequence with tile_len",
           std::to_string(tile_shape[3]));
  }
  const PlanKind kind = is_compact ? kCompactPlan : kTiledPlan;
  return recent_plans().get(description(kind, {&tile_shape, &tile_len}), [&] {
    std::vector<int32_t> lens;
    for (const int64_t len : tile_len) {
      if (len < 0 || len > kMaxTileTokens) {
        reject(operation_, "tile_len", "0 to the tokens of a tile", std::to_string(len));
      }
      lens.push_back(static_cast<int32_t>(len));
    }
    TilePlan tiled = take(TilePlan::tiled(lens, tile_of(tile_shape).num_tokens()));
    return is_compact ? tiled.in_compact_order() : tiled;
  });
}

void Arguments::check_tile_shape(const Ints& tile_shape, int64_t last_order) const {
  if (tile_shape.size() != 3 && tile_shape.size() != 4) {
    reject(operation_, "tile_shape", "(f, h, w)", std::to_string(tile_shape.size()));
  }
  for (size_t i = 0; i < 3; ++i) {
    if (tile_shape[i] < 1 || tile_shape[i] > kMaxTileTokens) {
      reject(operation_, "tile_shape", "extents of 1 to 256", std::to_string(tile_shape[i]));
    }
  }
  if (tile_shape.size() == 4 && (tile_shape[3] < 1 || tile_shape[3] > last_order)) {
    reject(operation_, "tile_shape", "an order of 1 to " + std::to_string(last_order),
           std::to_string(tile_shape[3]));
  }
}

CoarseRounding Arguments::rounding(std::string_view name) const {
  if (name == "none") return CoarseRounding::kNone;
  if (name == "bfloat16") return CoarseRounding::kBf16;
  reject(operation_, "coarse_rounding", "none or bfloat16", name);
}

SelectOptions Arguments::select(int64_t topk, const TilePlan& plan,
                                const std::vector<int32_t>& prefix) const {
  if (topk < 1 || topk > plan.num_tiles()) {
    reject(operation_, "topk", "1 to " + std::to_string(plan.num_tiles()) + " (kv tiles)",
           std::to_string(topk));
  }
  return {.topk = topk, .forced_columns = prefix, .dense_rows = prefix};
}

std::vector<int32_t> prefix_tiles(const TilePlan& plan) {
  std::vector<int32_t> tiles(static_cast<size_t>(plan.num_prefix_tiles()));
  std::iota(tiles.begin(), tiles.end(), 0);
  return tiles;
}

std::optional<float> scale_of(const std::optional<double>& scale) {
  if (!scale) return std::nullopt;
  return static_cast<float>(*scale);
}

TorchTensor new_tensor(const TorchTensor& like, const Ints& shape, ScalarType dtype) {
  Ints strides(shape.size(), 1);
  bool fits = true;
  for (size_t axis = shape.size(); axis-- > 1;) {
    fits = fits && !__builtin_mul_overflow(strides[axis], shape[axis], &strides[axis - 1]);
  }
  const auto dtype_code = torch::stable::detail::to<int32_t>(torch::stable::detail::from(dtype));
  int32_t device_type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  AtenTensorHandle made = nullptr;
  // Not torch::stable::new_empty: that looks the operator up by its name, which takes longer.
  if (fits &&
      aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(), strides.data(),
                               dtype_code, device_type, like.get_device_index(), &made) == 0) {
    return TorchTensor(made);
  }
  // The stable ABI does not tell the reason, but everything except for memory has been checked.
  std::string text = "[new_tensor] memory: expected room for a tensor [";
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    text.append(axis == 0 ? "" : ",").append(std::to_string(shape[axis]));
  }
  raise_if_error(out_of_memory(text.append("], got none")));
  std::abort();  // not reached: that was an error
}

Workspace WorkspaceTensor::take(void* self, int64_t size_bytes) {
  auto& workspace = *static_cast<WorkspaceTensor*>(self);
  try {
    workspace.memory_ = new_tensor(workspace.like_, {size_bytes}, ScalarType::Byte);
  } catch (const std::exception&) {
    return {};  // libvsa says OutOfMemory
  }
  return {.data = workspace.memory_->data_ptr(), .size_bytes = size_bytes};
}

TorchTensor new_like(const TorchTensor& like) {
  const auto sizes = like.sizes();
  return new_tensor(like, {sizes.begin(), sizes.end()}, like.scalar_type());
}

TorchTensor nothing(const TorchTensor& like) { return new_tensor(like, {0}, like.scalar_type()); }

}  // namespace vsa::torch_ops
