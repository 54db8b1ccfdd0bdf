// The stage linear: one product of cuBLASLt, with bias and activation in its epilogue. Host-only.
#include "src/cuda/stages.h"
#include "src/cuda/support/libraries.h"
#include "src/cuda/traits.h"
#ifdef VSA_HAS_CUBLAS
#include "src/cuda/linear/cublas.h"
#include "src/cuda/support/call.h"
#endif

namespace vsa::cuda {

#ifdef VSA_HAS_CUBLAS
namespace {

cudaDataType_t type_of(DType dtype) {
  if (dtype == DType::kBF16) return CUDA_R_16BF;
  return dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

/// The largest power of two up to 256 that divides the address.
uint32_t alignment_of(const void* data) {
  const auto bits = reinterpret_cast<uintptr_t>(data) | 256U;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

cublasLtEpilogue_t epilogue_of(const LinearArgs& args) {
  const bool gelu = args.activation == Activation::kGeluTanh;
  if (args.bias.empty()) return gelu ? CUBLASLT_EPILOGUE_GELU : CUBLASLT_EPILOGUE_DEFAULT;
  return gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
}

/// The distance of rows; of a single row any that is long enough.
int64_t row_stride(const ConstTensor& t) { return t.shape[2] == 1 ? t.shape[3] : t.stride[2]; }

}  // namespace

Status linear(const Context& context, const LinearArgs& args) {
  Call call("linear", context);
  VSA_TRY(check_cublas());
  void* const workspace = call.workspace.take<uint8_t>(kCublasWorkspaceBytes);
  return call.run(args, [&](const CallSite& at) {
    return enqueue_product(at,
                           {.m = args.weight.shape[2],
                            .n = args.x.shape[2],
                            .k = args.x.shape[3],
                            .lda = row_stride(args.weight),
                            .ldb = row_stride(args.x),
                            .ldd = row_stride(args.out),
                            .type = type_of(args.x.dtype),
                            .out_type = type_of(args.out.dtype),
                            .epilogue = epilogue_of(args),
                            .alignment = {alignment_of(args.weight.data), alignment_of(args.x.data),
                                          alignment_of(args.out.data)}},
                           {.a = args.weight.data,
                            .b = args.x.data,
                            .bias = args.bias.data,
                            .d = args.out.data,
                            .workspace = workspace});
  });
}

#else

Status linear(const Context& /*context*/, const LinearArgs& /*args*/) {
  return library(kCublasName).status();
}

#endif

}  // namespace vsa::cuda
