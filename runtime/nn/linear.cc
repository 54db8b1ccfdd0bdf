// y = act(x W^T + b) in f32, on oneDNN. Host-only.
#include "runtime/nn/linear.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "runtime/nn/buffer.h"
#include "runtime/nn/isa.h"
#include "runtime/nn/parallel.h"

namespace vsa::nn {
namespace {

using dnnl::memory;
constexpr auto kF32 = memory::data_type::f32;

dnnl::engine& cpu_engine() {
  static dnnl::engine engine = [] {
    throw_if_error(check_isa());  // oneDNN takes orders before its first product alone
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

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

/// Memory of the calling thread, as large as any primitive needed so far.
memory scratchpad(const memory::desc& desc) {
  thread_local Buffer buffer;
  const auto floats = static_cast<int64_t>((desc.get_size() + sizeof(float) - 1) / sizeof(float));
  if (buffer.size() < floats) buffer = Buffer(floats);
  return {desc, cpu_engine(), buffer.data()};
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

struct Linear::State {
  LinearDims dims;
  Activation activation = Activation::kNone;
  memory weight;  // [in, out] in oneDNN's layout
  memory bias;    // [1, out]; empty handle if there is none

  std::mutex mutex;
  std::map<int64_t, Matmul> by_rows;  // a whole block, a tail: few entries

  dnnl::matmul::primitive_desc describe(int64_t rows, const memory::desc& weight_desc) const {
    const memory::desc x = row_major(rows, dims.in);
    const memory::desc y = row_major(rows, dims.out);
    const dnnl::matmul::desc op =
        bias ? dnnl::matmul::desc(x, weight_desc, row_major(1, dims.out), y)
             : dnnl::matmul::desc(x, weight_desc, y);
    return {op, attributes(activation), cpu_engine()};
  }

  /// The reference stays valid: entries are never removed.
  const Matmul& matmul(int64_t rows) {
    const std::lock_guard lock(mutex);
    auto found = by_rows.find(rows);
    if (found == by_rows.end()) {
      // Planned for one thread: threads work on different rows, and no sum is ever split.
      const ThreadCount one(1);
      const auto description = describe(rows, weight.get_desc());
      found =
          by_rows.emplace(rows, Matmul{dnnl::matmul(description), description.scratchpad_desc()})
              .first;
    }
    return found->second;
  }
};

Linear::Linear(LinearDims dims, std::span<const float> weight, std::span<const float> bias,
               Activation activation)
    : state_(std::make_shared<State>()) {
  state_->dims = dims;
  state_->activation = activation;
  if (!bias.empty()) {
    state_->bias = memory(row_major(1, dims.out), cpu_engine());
    std::copy(bias.begin(), bias.end(), static_cast<float*>(state_->bias.get_data_handle()));
  }
  const ThreadCount one(1);
  const memory::desc any({dims.in, dims.out}, kF32, memory::format_tag::any);
  state_->weight = memory(state_->describe(kRowBlock, any).weights_desc(), cpu_engine());
  memory plain({{dims.in, dims.out}, kF32, memory::format_tag::ba}, cpu_engine(),
               const_cast<float*>(weight.data()));  // only read
  dnnl::stream stream(cpu_engine());
  dnnl::reorder(plain, state_->weight).execute(stream, plain, state_->weight);
  stream.wait();
}

LinearDims Linear::dims() const { return state_ ? state_->dims : LinearDims{}; }

void Linear::forward_block(const float* x, int64_t rows, float* y) const {
  const Matmul& matmul = state_->matmul(rows);
  dnnl::stream stream(cpu_engine());
  std::unordered_map<int, memory> args{
      {DNNL_ARG_SRC, memory(row_major(rows, state_->dims.in), cpu_engine(), const_cast<float*>(x))},
      {DNNL_ARG_WEIGHTS, state_->weight},
      {DNNL_ARG_DST, memory(row_major(rows, state_->dims.out), cpu_engine(), y)},
      {DNNL_ARG_SCRATCHPAD, scratchpad(matmul.scratchpad_desc)}};
  if (state_->bias) args.emplace(DNNL_ARG_BIAS, state_->bias);
  matmul.primitive.execute(stream, args);
  stream.wait();
}

void Linear::forward(const float* x, int64_t rows, float* y) const {
  parallel_rows(rows, [&](const RowBlock& block) {
    forward_block(x + block.begin * state_->dims.in, block.size(),
                  y + block.begin * state_->dims.out);
  });
}

}  // namespace vsa::nn
