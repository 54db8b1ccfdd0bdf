// The entry of `vsa`.
#include <fmt/format.h>

#include "vsa/backend.h"
#include "vsa/version.h"

int main() {
  fmt::print("vsa {}\n", VSA_VERSION_STRING);
  for (const vsa::BackendInfo& info : vsa::backends()) {
    fmt::print("  {}: {}\n", vsa::name(info.id), info.detail);
  }
  return 0;
}
