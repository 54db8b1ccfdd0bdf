// The fp32 rate of oneDNN's GEMM on the same cores: what the attention kernels are measured
// against. Host-only.
#pragma once

#include <vector>

namespace vsa::cli {

/// C = A B with square matrices of 3072 (36 MiB each, past every cache).
class GemmBase {
 public:
  /// 2 * 3072^3.
  static double flops();
  /// Multiplies on as many threads as OpenMP gives; the first time it draws the matrices.
  /// Throws Failure if oneDNN refuses.
  void run();

 private:
  std::vector<float> a_, b_, c_;
};

}  // namespace vsa::cli
