// The matrix product by oneDNN to which `vsa bench` compares rates. Host-only.
#include "cli/bench/gemm_base.h"

#include <oneapi/dnnl/dnnl.h>

#include "cli/common/failure.h"
#include "runtime/sampler/noise.h"

namespace vsa::cli {
namespace {

constexpr dnnl_dim_t kSize = 3072;

}  // namespace

double GemmBase::flops() {
  return 2.0 * static_cast<double>(kSize) * static_cast<double>(kSize) * static_cast<double>(kSize);
}

void GemmBase::run() {
  if (c_.empty()) {
    for (std::vector<float>* x : {&a_, &b_, &c_}) x->resize(kSize * kSize);
    sampler::normal(1, 0, 0, a_);
    sampler::normal(2, 0, 0, b_);
  }
  if (dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0F, a_.data(), kSize, b_.data(), kSize, 0.0F,
                 c_.data(), kSize) != dnnl_success) {
    throw Failure(ExitCode::kFailed, "oneDNN: sgemm failed");
  }
}

}  // namespace vsa::cli
