// libFuzzer: one call of the C ABI per input.
#include <cstdio>
#include <cstdlib>

#include "tests/support/hostile_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const vsa::test::HostileOutcome outcome = vsa::test::hostile_call({data, size});
  if (!outcome.fault.empty()) {
    std::fprintf(stderr, "%s: %s\n", outcome.operation.c_str(), outcome.fault.c_str());
    std::abort();
  }
  return 0;
}
