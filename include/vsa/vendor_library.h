// Libraries of the card's vendor that a backend uses beside its own kernels (matrix products,
// convolutions, exchange between cards). They are loaded when first asked for, so that programs
// start without them. Host-only.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "vsa/backend.h"

namespace vsa {

/// One library, as this machine has it.
struct VendorLibraryInfo {
  std::string_view name;  ///< "cuBLAS"
  bool available = false;
  std::string detail;  ///< if available, its version and file; else why it is absent
};

/// All libraries that the backend knows, compiled in or not: cuBLAS, cuDNN and NCCL of the cuda
/// backend, none of the others. Loads those that are there, which takes about 0.1 s.
std::vector<VendorLibraryInfo> vendor_libraries(BackendId id);

/// The address of a function; `vendor_function` gives it its type.
Result<void*> vendor_symbol(BackendId id, std::string_view library, const char* name);

/// A function of a library, to be called as its header declares it:
///   decltype(&cublasLtCreate) create = nullptr;
///   VSA_TRY(vendor_function(BackendId::kCuda, "cuBLAS", "cublasLtCreate", &create));
/// The library stays loaded until the process ends, so the pointer may be kept. Thread-safe; costs
/// a lookup by name, so ask once.
/// @param function  is set only on success
/// @return InvalidArgument (the backend knows no such library) | Unsupported (backend or headers
/// are not part of this build; no file; a file that is no library, of another major version than
/// the headers, or without the function), with the reason
template <class Function>
requires std::is_function_v<Function> Status vendor_function(BackendId id, std::string_view library,
                                                             const char* name,
                                                             Function** function) {
  const Result<void*> symbol = vendor_symbol(id, library, name);
  VSA_TRY(symbol.status());
  *function = reinterpret_cast<Function*>(*symbol);
  return {};
}

}  // namespace vsa
