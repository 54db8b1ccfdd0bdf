// cuBLAS, cuDNN and NCCL: their names, and how each says its version. Host-only.
//
// A library whose headers CMake has not found (cmake/cuda_libraries.cmake) is left out.
#include "src/cuda/support/libraries.h"

#include <algorithm>
#include <cstdlib>

#include "src/cuda/traits.h"
#ifdef VSA_HAS_CUBLAS
#include <cublasLt.h>
#endif
#ifdef VSA_HAS_CUDNN
#include <cudnn.h>
#endif
#ifdef VSA_HAS_NCCL
#include <nccl.h>
#endif

#define VSA_TEXT_OF(number) #number
#define VSA_FILE(stem, major) "lib" stem ".so." VSA_TEXT_OF(major)

namespace vsa::cuda {
namespace {

namespace fs = std::filesystem;
using Wanted = SharedLibrary::Wanted;

template <class Function>
Result<LibraryVersion> returned_by(const SharedLibrary& library, const char* name) {
  Function* version = nullptr;
  VSA_TRY(library.function(name, &version));
  return static_cast<LibraryVersion>(version());
}

constexpr Wanted kCublas{
    .name = kCublasName,
#ifdef VSA_HAS_CUBLAS
    // cublasLt alone: cublas is a layer above it that nothing here needs.
    .file = VSA_FILE("cublasLt", CUBLAS_VER_MAJOR),
    .headers = CUBLAS_VERSION,
    .version =
        [](const SharedLibrary& library) {
          return returned_by<decltype(cublasLtGetVersion)>(library, "cublasLtGetVersion");
        },
#endif
};

constexpr Wanted kCudnn{
    .name = kCudnnName,
#ifdef VSA_HAS_CUDNN
    .file = VSA_FILE("cudnn", CUDNN_MAJOR),
    .headers = CUDNN_VERSION,
    .version =
        [](const SharedLibrary& library) {
          return returned_by<decltype(cudnnGetVersion)>(library, "cudnnGetVersion");
        },
#endif
};

constexpr Wanted kNccl{
    .name = kNcclName,
#ifdef VSA_HAS_NCCL
    .file = VSA_FILE("nccl", NCCL_MAJOR),
    .headers = NCCL_VERSION_CODE,
    .version = [](const SharedLibrary& library) -> Result<LibraryVersion> {
      decltype(&ncclGetVersion) version = nullptr;
      VSA_TRY(library.function("ncclGetVersion", &version));
      int code = 0;
      if (version(&code) == ncclSuccess) return LibraryVersion{code};
      return unsupported("[vendor_library] NCCL: expected its version, got an error from " +
                         library.path());
    },
#endif
};

/// Adds `folder` and the `lib` of each folder in it, which is where pip installs NVIDIA's libraries
/// (site-packages/nvidia/cudnn/lib).
void add_with_packages(std::vector<fs::path>& folders, const fs::path& folder) {
  folders.push_back(folder);
  std::vector<fs::path> packages;
  std::error_code none;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
    if (fs::is_directory(at->path() / "lib", none)) packages.push_back(at->path() / "lib");
  }
  std::ranges::sort(packages);  // a file system lists a folder in any order
  folders.insert(folders.end(), packages.begin(), packages.end());
}

template <const Wanted& kWanted>
Result<const SharedLibrary*> loaded() {
  static const Result<SharedLibrary> library = SharedLibrary::open(
      kWanted, library_places(std::getenv("VSA_CUDA_LIBRARIES"), std::getenv("CUDA_HOME")));
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace

SharedLibrary::Places library_places(const char* named, const char* cuda_home) {
  SharedLibrary::Places places{.hint = "VSA_CUDA_LIBRARIES names other folders"};
  const std::string all = named != nullptr ? named : "";
  for (size_t start = 0; start < all.size();) {
    const size_t end = std::min(all.find(':', start), all.size());
    if (end > start) add_with_packages(places.first, all.substr(start, end - start));
    start = end + 1;
  }
  const bool has_home = cuda_home != nullptr && *cuda_home != '\0';
  const fs::path home = has_home ? cuda_home : "/usr/local/cuda";
  places.last = {home / "lib64", home / "lib"};
  return places;
}

Result<const SharedLibrary*> library(std::string_view name) {
  if (name == kCublasName) return loaded<kCublas>();
  if (name == kCudnnName) return loaded<kCudnn>();
  if (name == kNcclName) return loaded<kNccl>();
  return invalid_argument("[vendor_library] library: expected cuBLAS, cuDNN or NCCL, got " +
                          std::string(name));
}

}  // namespace vsa::cuda
