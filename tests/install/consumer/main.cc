// Uses the C++ API of an installed vsa: a plan and one pooled tile.
#include <cstdio>
#include <vector>

#include "vsa/vsa.h"

int main() {
  const vsa::TilePlan plan = vsa::TilePlan::grid({4, 4, 4}, {4, 4, 4}).value();
  std::vector<float> x(64 * 8, 0.5F);
  std::vector<float> mean(8);
  const vsa::Status status =
      vsa::pool({.backend = vsa::BackendId::kReference},
                {.x = vsa::ConstTensor::bhsd(x.data(), vsa::DType::kF32, {1, 1, 64, 8}),
                 .plan = &plan,
                 .pooled = vsa::Tensor::bhsd(mean.data(), vsa::DType::kF32, {1, 1, 1, 8})});
  std::printf("%s\n", status.message().c_str());
  return status.ok() && mean[7] == 0.5F ? 0 : 1;
}
