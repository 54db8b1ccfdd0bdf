// What a vendor's library says of its version, in the ways of all that the tests stand in for.
// Compiled with VSA_FAKE_VERSION, as major * 10000 + minor * 100 + patch, or without: a library
// that has none of these functions.
#include <cstddef>

#ifdef VSA_FAKE_VERSION
extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() {
  return VSA_FAKE_VERSION;
}
extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion() {
  return VSA_FAKE_VERSION;
}
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = VSA_FAKE_VERSION;
  return 0;
}
extern "C" __attribute__((visibility("default"))) int vsa_fake_sum(int a, int b) { return a + b; }
#endif
