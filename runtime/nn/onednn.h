// What all primitives of oneDNN here share. Host-only.
#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

namespace vsa::nn {

/// The engine of this process's processor. Throws if VSA_ISA cannot be obeyed: oneDNN can be
/// limited only before its first primitive.
dnnl::engine& cpu_engine();

/// The number of floats that hold a tensor of that description.
int64_t floats_of(const dnnl::memory::desc& desc);

/// Memory of the calling thread, as large as any primitive on it needed so far; for primitives in
/// scratchpad_mode::user, one of which runs on a thread at a time. Throws std::bad_alloc.
dnnl::memory scratchpad(const dnnl::memory::desc& desc);

}  // namespace vsa::nn
