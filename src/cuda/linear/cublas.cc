// cuBLASLt as the linear stage uses it. Host-only.
#ifdef VSA_HAS_CUBLAS
#include "src/cuda/linear/cublas.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/cuda/support/libraries.h"
#include "src/cuda/traits.h"

namespace vsa::cuda {
namespace {

// The functions that are called, under their own names.
#define VSA_FOR_EACH_CUBLAS_FUNCTION(X)   \
  X(cublasLtCreate)                       \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)

struct Functions {
#define VSA_MEMBER(name) decltype(&::name) name = nullptr;
  VSA_FOR_EACH_CUBLAS_FUNCTION(VSA_MEMBER)
#undef VSA_MEMBER
};

Result<Functions> load() {
  const Result<const SharedLibrary*> cublas = library(kCublasName);
  VSA_TRY(cublas.status());
  Functions f;
#define VSA_LOAD(name) VSA_TRY((*cublas)->function(#name, &f.name));
  VSA_FOR_EACH_CUBLAS_FUNCTION(VSA_LOAD)
#undef VSA_LOAD
  return f;
}

const Result<Functions>& functions() {
  static const Result<Functions> loaded = load();
  return loaded;
}

Status check(const CallSite& at, const char* what, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Status(StatusCode::kDeviceError,
                fmt::format("[{}] cuBLAS: {}: {}", at.operation, what,
                            functions()->cublasLtGetStatusString(status)));
}

// What cuBLASLt creates is destroyed with its scope.
using Description = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>,
                                    cublasStatus_t (*)(cublasLtMatmulDesc_t)>;
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>,
                               cublasStatus_t (*)(cublasLtMatrixLayout_t)>;
using Preference = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                                   cublasStatus_t (*)(cublasLtMatmulPreference_t)>;

/// The operation and its three matrices, as cuBLASLt takes them.
class Described {
 public:
  explicit Described(const Functions& f)
      : f_(f),
        description(nullptr, f.cublasLtMatmulDescDestroy),
        a(nullptr, f.cublasLtMatrixLayoutDestroy),
        b(nullptr, f.cublasLtMatrixLayoutDestroy),
        d(nullptr, f.cublasLtMatrixLayoutDestroy) {}

  Status describe(const CallSite& at, const Product& p, const void* bias) {
    cublasLtMatmulDesc_t made = nullptr;
    VSA_TRY(check(at, "cublasLtMatmulDescCreate",
                  f_.cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    description.reset(made);
    VSA_TRY(set(at, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
    VSA_TRY(set(at, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue));
    if (bias != nullptr) {
      VSA_TRY(set(at, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
      VSA_TRY(set(at, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.out_type));
    }
    VSA_TRY(layout(at, a, p.type, p.k, p.m, p.lda));
    VSA_TRY(layout(at, b, p.type, p.k, p.n, p.ldb));
    return layout(at, d, p.out_type, p.m, p.n, p.ldd);
  }

 private:
  template <class Value>
  Status set(const CallSite& at, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    return check(
        at, "cublasLtMatmulDescSetAttribute",
        f_.cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value));
  }

  Status layout(const CallSite& at, Layout& to, cudaDataType_t type, int64_t rows, int64_t columns,
                int64_t ld) {
    cublasLtMatrixLayout_t made = nullptr;
    VSA_TRY(check(at, "cublasLtMatrixLayoutCreate",
                  f_.cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows),
                                                static_cast<uint64_t>(columns), ld)));
    to.reset(made);
    return {};
  }

  const Functions& f_;

 public:
  Description description;
  Layout a, b, d;
};

/// A device's handle, and the algorithms of the products that ran on it. Lasts until the process
/// ends: the driver may be gone by the time that objects of static storage are destroyed.
struct PerDevice {
  cublasLtHandle_t handle = nullptr;
  std::vector<std::pair<Product, cublasLtMatmulAlgo_t>> algorithms;
};

Status choose(const CallSite& at, const Functions& f, cublasLtHandle_t handle, const Product& p,
              const Described& how, cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulPreference_t made = nullptr;
  VSA_TRY(check(at, "cublasLtMatmulPreferenceCreate", f.cublasLtMatmulPreferenceCreate(&made)));
  const Preference preference(made, f.cublasLtMatmulPreferenceDestroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return check(at, "cublasLtMatmulPreferenceSetAttribute",
                 f.cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value));
  };
  const auto bytes = static_cast<uint64_t>(kCublasWorkspaceBytes);
  VSA_TRY(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes));
  VSA_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.alignment[0]));
  VSA_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.alignment[1]));
  VSA_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.alignment[2]));
  VSA_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.alignment[2]));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t asked =
      f.cublasLtMatmulAlgoGetHeuristic(handle, how.description.get(), how.a.get(), how.b.get(),
                                       how.d.get(), how.d.get(), made, 1, &best, &found);
  if (asked == CUBLAS_STATUS_NOT_SUPPORTED || (asked == CUBLAS_STATUS_SUCCESS && found == 0)) {
    return unsupported(
        fmt::format("[{}] cuBLAS: expected a way to multiply [{}, {}] by [{}, {}], got none",
                    at.operation, p.n, p.k, p.m, p.k));
  }
  VSA_TRY(check(at, "cublasLtMatmulAlgoGetHeuristic", asked));
  algorithm = best.algo;
  return {};
}

}  // namespace

Status check_cublas() { return functions().status(); }

Status enqueue_product(const CallSite& at, const Product& p, const ProductMemory& memory) {
  VSA_TRY(check_cublas());
  const Functions& f = *functions();
  Described how(f);
  VSA_TRY(how.describe(at, p, memory.bias));

  int number = 0;
  VSA_TRY(check(at.operation, cudaGetDevice(&number)));
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  {
    static auto& mutex = *new std::mutex;
    static auto& devices = *new std::vector<PerDevice>;
    const std::scoped_lock lock(mutex);
    if (devices.size() <= static_cast<size_t>(number))
      devices.resize(static_cast<size_t>(number) + 1);
    PerDevice& device = devices[static_cast<size_t>(number)];
    if (device.handle == nullptr) {
      VSA_TRY(check(at, "cublasLtCreate", f.cublasLtCreate(&device.handle)));
    }
    handle = device.handle;
    const auto known =
        std::ranges::find(device.algorithms, p, &std::pair<Product, cublasLtMatmulAlgo_t>::first);
    if (known != device.algorithms.end()) {
      algorithm = known->second;
    } else {
      VSA_TRY(choose(at, f, handle, p, how, algorithm));
      device.algorithms.emplace_back(p, algorithm);
    }
  }
  const float one = 1.0F;
  const float zero = 0.0F;
  return check(
      at, "cublasLtMatmul",
      f.cublasLtMatmul(handle, how.description.get(), &one, memory.a, how.a.get(), memory.b,
                       how.b.get(), &zero, memory.d, how.d.get(), memory.d, how.d.get(), &algorithm,
                       memory.workspace, static_cast<size_t>(kCublasWorkspaceBytes), at.stream));
}

}  // namespace vsa::cuda
#endif  // VSA_HAS_CUBLAS
