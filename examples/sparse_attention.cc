// Sparse attention over one video in raster order, with libvsa alone. Shown in docs/guide/cpp.md.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "vsa/vsa.h"

int main() {
  // 8 x 16 x 16 tokens in tiles of 4 x 4 x 4: 32 tiles. A quarter of them is kept for each tile.
  const vsa::TilePlan plan = vsa::TilePlan::grid({8, 16, 16}, {4, 4, 4}).value();
  const int64_t topk = vsa::topk_from_sparsity(0.75, plan.num_tiles()).value();

  const vsa::Dims dims{.batch = 1, .num_heads = 4, .seq_len = plan.seq_len(), .head_dim = 64};
  std::vector<float> q(static_cast<size_t>(4 * plan.seq_len() * 64), 0.5F);
  std::vector<float> k = q, v = q, gate = q, out(q.size());

  const vsa::Status status = vsa::attention_forward(
      {.backend = vsa::BackendId::kCpu},
      {.q = vsa::ConstTensor::bshd(q.data(), vsa::DType::kF32, dims),
       .k = vsa::ConstTensor::bshd(k.data(), vsa::DType::kF32, dims),
       .v = vsa::ConstTensor::bshd(v.data(), vsa::DType::kF32, dims),
       .gate_coarse =
           vsa::Gate::tensor(vsa::ConstTensor::bshd(gate.data(), vsa::DType::kF32, dims)),
       .q_plan = &plan,
       .kv_plan = &plan,
       .select = {.topk = topk},
       .out = vsa::Tensor::bshd(out.data(), vsa::DType::kF32, dims)});
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  // Every v is 0.5, so both branches give 0.5, and out = 0.5 + 0.5 * 0.5.
  std::printf("kept %d of %d tiles, out[0] = %.2f\n", static_cast<int>(topk),
              static_cast<int>(plan.num_tiles()), static_cast<double>(out[0]));
  return std::abs(out[0] - 0.75F) < 1e-5F ? 0 : 1;
}
