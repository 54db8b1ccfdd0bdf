// Peak memory of one call of the CPU backend, beyond its inputs and outputs.
//
//   vsa_cpu_memory f32|bf16|f16 forward|backward
//
// Case: grid 32x32x32 (S = 32768), tile 4x4x4, H = 12, D = 128, 12.5 % kept, [B, S, H, D]. The peak
// is the process's largest resident set; what it had before the first tensor is taken off.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "vsa/vsa.h"

namespace {

constexpr vsa::Dims kDims{.batch = 1, .num_heads = 12, .seq_len = 32768, .head_dim = 128};
constexpr double kMiB = 1024.0 * 1024.0;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// Tensors with every page written, so that the resident set holds all of them.
class Tensors {
 public:
  explicit Tensors(vsa::DType dtype) : dtype_(dtype) {}

  vsa::Tensor make(vsa::DType dtype, const vsa::Dims& dims) {
    const int64_t bytes =
        dims.batch * dims.num_heads * dims.seq_len * dims.head_dim * vsa::size_bytes(dtype);
    auto& memory = memory_.emplace_back(static_cast<size_t>(bytes));
    // 16-bit patterns between 0.5 and 1 in bf16, between 1 and 2 in f16; as f32, about 0.5 to 1.
    uint32_t state = static_cast<uint32_t>(memory_.size());
    for (size_t i = 0; i + 1 < memory.size(); i += 2) {
      state = state * 1664525U + 1013904223U;
      memory[i] = static_cast<uint8_t>(state >> 24);
      memory[i + 1] = 0x3F;
    }
    total_ += static_cast<double>(bytes);
    return vsa::Tensor::bshd(memory.data(), dtype, dims);
  }
  vsa::Tensor tokens() { return make(dtype_, kDims); }
  vsa::Tensor lse() {
    vsa::Dims dims = kDims;
    dims.head_dim = 1;
    return make(vsa::DType::kF32, dims);
  }
  double total_mib() const { return total_ / kMiB; }

 private:
  vsa::DType dtype_;
  std::vector<std::vector<uint8_t>> memory_;
  double total_ = 0.0;
};

int usage() {
  fmt::print(stderr, "usage: vsa_cpu_memory f32|bf16|f16 forward|backward\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return usage();
  const std::string_view wanted = argv[1];
  const std::string_view pass = argv[2];
  vsa::DType dtype = vsa::DType::kF32;
  if (wanted == "bf16") dtype = vsa::DType::kBF16;
  if (wanted == "f16") dtype = vsa::DType::kF16;
  if (name(dtype) != wanted || (pass != "forward" && pass != "backward")) return usage();
  const bool backward = pass == "backward";

  const double at_start = peak_mib();
  const vsa::TilePlan plan = vsa::TilePlan::grid({32, 32, 32}, {4, 4, 4}).value();
  Tensors tensors(dtype);
  vsa::AttentionArgs args;
  args.q = tensors.tokens();
  args.k = tensors.tokens();
  args.v = tensors.tokens();
  args.gate_coarse = vsa::Gate::tensor(tensors.tokens());
  args.q_plan = args.kv_plan = &plan;
  args.select.topk = plan.num_tiles() / 8;
  args.out = tensors.tokens();
  vsa::LutBuffer lut({.batch = kDims.batch,
                      .num_heads = kDims.num_heads,
                      .num_q_tiles = plan.num_tiles(),
                      .pitch = args.select.topk});
  if (backward) {
    args.lse = tensors.lse();
    args.fine_out = tensors.tokens();
    args.lut_out = lut.view();
  }
  vsa::throw_if_error(vsa::attention_forward({}, args));
  if (backward) {
    vsa::AttentionBackwardArgs gradients;
    gradients.q = args.q;
    gradients.k = args.k;
    gradients.v = args.v;
    gradients.gate_coarse = args.gate_coarse;
    gradients.q_plan = gradients.kv_plan = &plan;
    gradients.lut = lut.view();
    gradients.lse = args.lse;
    gradients.fine_out = args.fine_out;
    gradients.dout = tensors.tokens();
    gradients.dq = tensors.tokens();
    gradients.dk = tensors.tokens();
    gradients.dv = tensors.tokens();
    gradients.dgate_coarse = tensors.tokens();
    vsa::throw_if_error(vsa::attention_backward({}, gradients));
  }
  const double beyond = peak_mib() - at_start - tensors.total_mib();
  fmt::print("{} {}: inputs + outputs {:.1f} MiB, beyond them {:.1f} MiB = {:.2f} %\n", wanted,
             pass, tensors.total_mib(), beyond, 100.0 * beyond / tensors.total_mib());
  return 0;
}
