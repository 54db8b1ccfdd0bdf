// The engine of oneDNN, and the scratch memory of its primitives. Host-only.
#include "runtime/nn/onednn.h"

#include "runtime/nn/buffer.h"
#include "runtime/nn/isa.h"
#include "vsa/status.h"

namespace vsa::nn {

dnnl::engine& cpu_engine() {
  static dnnl::engine engine = [] {
    throw_if_error(check_isa());
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

int64_t floats_of(const dnnl::memory::desc& desc) {
  return static_cast<int64_t>((desc.get_size() + sizeof(float) - 1) / sizeof(float));
}

dnnl::memory scratchpad(const dnnl::memory::desc& desc) {
  thread_local Buffer buffer;
  const int64_t floats = floats_of(desc);
  if (buffer.size() < floats) buffer = Buffer(floats);
  return {desc, cpu_engine(), buffer.data()};
}

}  // namespace vsa::nn
