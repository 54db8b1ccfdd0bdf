// The list of families, which cmake/cuda.cmake defines. Host-only.
#include "src/cuda/family.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "src/cuda/support/device.h"

// VSA_CUDA_FAMILIES is X(first) X(second) ...
namespace vsa::cuda {
#define X(family)              \
  namespace family {           \
  extern const Family kFamily; \
  }
VSA_CUDA_FAMILIES
#undef X
namespace {

#define X(family) &family::kFamily,
constexpr const Family* kFamilies[] = {VSA_CUDA_FAMILIES};
#undef X

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family* family_of(int capability) {
  const auto found = std::ranges::find_if(
      kFamilies, [&](const Family* family) { return family->supports(capability); });
  return found == std::end(kFamilies) ? nullptr : *found;
}

const Family& family_for(const void* data) {
  cudaPointerAttributes attributes{};
  if (std::size(kFamilies) > 1) {
    if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
      cudaGetLastError();  // not left behind for the caller's own checks
    } else if (const Family* family = family_of(capability_of(attributes.device))) {
      return *family;
    }
  }
  return *kFamilies[0];
}

std::string family_names(std::string_view separator) {
  std::vector<std::string_view> names;
  for (const Family* family : kFamilies) names.push_back(family->name);
  return fmt::format("{}", fmt::join(names, separator));
}

std::string family_capabilities() {
  std::vector<std::string> all;
  for (const Family* family : kFamilies) {
    for (const int capability : {family->min_capability, family->max_capability}) {
      all.push_back(fmt::format("{}.{}", capability / 10, capability % 10));
      if (family->min_capability == family->max_capability) break;
    }
  }
  return fmt::format("{}", fmt::join(all, " or "));
}

}  // namespace vsa::cuda
