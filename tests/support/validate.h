// Validation by the backend that a context names, whether or not it is part of this build.
#pragma once

#include "src/api/registry.h"
#include "src/core/validate.h"
#include "src/cuda/traits.h"

namespace vsa {

template <class Args>
Status validate(const Context& context, const Args& args) {
  const BackendTraits& traits =
      context.backend == BackendId::kCuda ? cuda::kTraits : find_backend(context.backend)->traits;
  return validate(traits, context, args);
}

}  // namespace vsa
