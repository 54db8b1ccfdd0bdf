// y = act(x W^T + b) in f32, on oneDNN, with the weight kept in the type of its file. Host-only.
#include "runtime/nn/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "runtime/io/mmap.h"
#include "runtime/nn/convert.h"
#include "runtime/nn/onednn.h"
#include "runtime/nn/parallel.h"
#include "runtime/nn/weight_change.h"

namespace vsa::nn {
namespace {

using dnnl::memory;
constexpr auto kF32 = memory::data_type::f32;

memory::desc row_major(int64_t rows, int64_t cols) {
  return {{rows, cols}, kF32, memory::format_tag::ab};
}

dnnl::primitive_attr attributes(Activation activation) {
  dnnl::post_ops ops;
  if (activation == Activation::kGeluTanh) {
    ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
  } else if (activation == Activation::kSilu) {
    ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_swish, 1.0F, 0.0F);
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  // oneDNN's own scratchpad belongs to the primitive, and one primitive runs on many threads here.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// A multiplication for a certain number of rows.
struct Matmul {
  dnnl::matmul primitive;
  memory::desc scratchpad_desc;
};

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

void WeightSpace::clear() {
  if (!more_.empty()) {
    more_.clear();
    memory_ = Buffer();  // frees the old memory before the new is taken
    memory_ = Buffer(taken_);
  }
  taken_ = 0;
}

float* WeightSpace::take(int64_t n) {
  constexpr int64_t kLine = 16;  // floats of a cache line
  const int64_t begin = taken_;
  taken_ += (n + kLine - 1) / kLine * kLine;
  if (taken_ <= memory_.size()) return memory_.data() + begin;
  return more_.emplace_back(n).data();
}

namespace {

/// Whether a product can read the numbers in place.
bool is_plain_f32(io::StorageType type, float scale, const std::byte* numbers) {
  return type == io::StorageType::kF32 && scale == 1.0F &&
         reinterpret_cast<uintptr_t>(numbers) % alignof(float) == 0;
}

}  // namespace

struct ReadyLinear::State {
  LinearDims dims;
  Activation activation = Activation::kNone;
  memory::desc order;  // of the f32 weight [in, out]
  memory bias;         // [1, out]; empty handle if there is none

  // The weight as it is kept: numbers of `type` in that order, padding included.
  io::StorageType type = io::StorageType::kF32;
  float scale = 1.0F;
  const std::byte* kept = nullptr;
  Buffer packed;  // what `kept` points to, unless that is a file or `changed`
  std::vector<std::byte> changed;

  mutable std::mutex mutex;
  mutable std::map<int64_t, Matmul> by_rows;  // a whole block, a tail: few entries

  int64_t num_kept() const { return static_cast<int64_t>(order.get_size() / sizeof(float)); }

  dnnl::matmul::primitive_desc describe(int64_t rows, const memory::desc& weight) const {
    const memory::desc x = row_major(rows, dims.in);
    const memory::desc y = row_major(rows, dims.out);
    const dnnl::matmul::desc op = bias ? dnnl::matmul::desc(x, weight, row_major(1, dims.out), y)
                                       : dnnl::matmul::desc(x, weight, y);
    return {op, attributes(activation), cpu_engine()};
  }

  /// The reference stays valid: entries are never removed.
  const Matmul& matmul(int64_t rows) const {
    const std::lock_guard lock(mutex);
    auto found = by_rows.find(rows);
    if (found == by_rows.end()) {
      // Planned for one thread: threads work on different rows, and no sum is ever split.
      const ThreadCount one(1);
      const auto description = describe(rows, order);
      found =
          by_rows.emplace(rows, Matmul{dnnl::matmul(description), description.scratchpad_desc()})
              .first;
    }
    return found->second;
  }

  bool is_ready() const { return is_plain_f32(type, scale, kept); }

  void pack(const Weight& weight);
};

/// Copies the weight into the order that oneDNN chose. A 16-bit weight stays 16-bit: it is
/// converted to f32, reordered by oneDNN, and converted back without loss.
void ReadyLinear::State::pack(const Weight& weight) {
  const bool is_half = io::size_bytes(weight.type) == 2;
  if (is_half) scale = weight.scale;  // a weight of any other type is multiplied by it here
  type = is_half ? weight.type : io::StorageType::kF32;
  // The memory that is kept is allocated first, so that what is freed lies behind it on the heap.
  packed = Buffer(is_half ? (num_kept() + 1) / 2 : num_kept());
  kept = reinterpret_cast<const std::byte*>(packed.data());
  Buffer ordered(is_half ? num_kept() : 0);
  float* const in_order = is_half ? ordered.data() : packed.data();
  Buffer plain;
  const float* source = reinterpret_cast<const float*>(weight.bytes.data());
  if (!is_plain_f32(weight.type, weight.scale, weight.bytes.data())) {
    plain = Buffer(weight.num_elements());
    widen_parallel(weight.type, weight.bytes.data(), plain.size(), is_half ? 1.0F : weight.scale,
                   plain.data());
    source = plain.data();
  }
  memory from({{dims.in, dims.out}, kF32, memory::format_tag::ba}, cpu_engine(),
              const_cast<float*>(source));  // only read
  memory to(order, cpu_engine(), in_order);
  dnnl::stream stream(cpu_engine());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  if (is_half) {
    narrow_parallel(type, in_order, num_kept(), reinterpret_cast<std::byte*>(packed.data()));
  }
  if (weight.in_file) io::release_pages(weight.bytes);
}

Linear::Linear(const LinearWeights& weights, Activation activation, Keep keep) {
  if (weights.empty()) return;
  state_ = std::make_shared<ReadyLinear::State>();
  ReadyLinear::State& state = *state_;
  state.dims = weights.dims;
  state.activation = activation;
  if (!weights.bias.empty()) {
    state.bias = memory(row_major(1, weights.dims.out), cpu_engine());
    std::ranges::copy(values(weights.bias), static_cast<float*>(state.bias.get_data_handle()));
  }
  ChangedWeight used = changed(weights.weight);
  const memory::dims extents{weights.dims.in, weights.dims.out};
  if (keep == Keep::kMapped) {
    state.order = {extents, kF32, memory::format_tag::ba};  // [out, in], row-major
    state.type = used.weight.type;
    state.scale = used.weight.scale;
    state.kept = used.weight.bytes.data();
    state.changed = std::move(used.memory);
    return;
  }
  {
    const ThreadCount one(1);
    state.order =
        state.describe(kRowBlock, {extents, kF32, memory::format_tag::any}).weights_desc();
  }
  state.pack(used.weight);
}

LinearDims Linear::dims() const { return state_ ? state_->dims : LinearDims{}; }

ReadyLinear Linear::ready(WeightSpace& space) const {
  ReadyLinear ready;
  if (!state_) return ready;
  ready.state_ = state_.get();
  if (state_->is_ready()) {
    ready.weight_ = reinterpret_cast<const float*>(state_->kept);
    return ready;
  }
  float* const widened = space.take(state_->num_kept());
  widen_parallel(state_->type, state_->kept, state_->num_kept(), state_->scale, widened);
  ready.weight_ = widened;
  return ready;
}

void ReadyLinear::forward_block(const float* x, int64_t rows, float* y) const {
  const Matmul& matmul = state_->matmul(rows);
  dnnl::stream stream(cpu_engine());
  const auto argument = [](const memory::desc& desc, const float* data) {
    return memory(desc, cpu_engine(), const_cast<float*>(data));  // only y is written
  };
  std::unordered_map<int, memory> args{
      {DNNL_ARG_SRC, argument(row_major(rows, state_->dims.in), x)},
      {DNNL_ARG_WEIGHTS, argument(state_->order, weight_)},
      {DNNL_ARG_DST, argument(row_major(rows, state_->dims.out), y)},
      {DNNL_ARG_SCRATCHPAD, scratchpad(matmul.scratchpad_desc)}};
  if (state_->bias) args.emplace(DNNL_ARG_BIAS, state_->bias);
  matmul.primitive.execute(stream, args);
  stream.wait();
}

void ReadyLinear::forward(const float* x, int64_t rows, float* y) const {
  parallel_rows(rows, [&](const RowBlock& block) {
    forward_block(x + block.begin * state_->dims.in, block.size(),
                  y + block.begin * state_->dims.out);
  });
}

}  // namespace vsa::nn
