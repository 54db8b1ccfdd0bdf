// cuBLASLt as the linear stage uses it: its functions, loaded at run time, a handle for each device
// and the algorithms that it chose. Host-only; for sources that see its headers.
#pragma once

#include <cublasLt.h>

#include "src/cuda/support/launch.h"
#include "vsa/status.h"

namespace vsa::cuda {

/// Memory that every product may use.
inline constexpr int64_t kCublasWorkspaceBytes = int64_t{32}
                                                 << 20;  // what NVIDIA advises for sm_90

/// A product D = A^T B of column-major matrices with its epilogue: the linear layer's out^T =
/// weight x^T.
struct Product {
  int64_t m = 0, n = 0, k = 0;            ///< N, M and K of the linear layer
  int64_t lda = 0, ldb = 0, ldd = 0;      ///< in elements
  cudaDataType_t type = CUDA_R_16BF;      ///< of A and B
  cudaDataType_t out_type = CUDA_R_16BF;  ///< of D and the bias
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  uint32_t alignment[3] = {};  ///< of A, B and D, in bytes, up to 256

  bool operator==(const Product&) const = default;
};

struct ProductMemory {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;  ///< kCublasWorkspaceBytes
};

/// Whether cuBLASLt is there. @return Unsupported, with the reason
Status check_cublas();

/// Enqueues the product on the current device. The first of a kind asks cuBLASLt for an algorithm,
/// which is the same in every process on one version of it and one device, and keeps it.
/// @return Unsupported (no algorithm) | DeviceError
Status enqueue_product(const CallSite& at, const Product& product, const ProductMemory& memory);

}  // namespace vsa::cuda
