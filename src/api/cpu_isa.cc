// The instruction set of the CPU backend for code beside libvsa. Host-only.
#include <fmt/format.h>

#include "src/cpu/support/isa.h"
#include "vsa/backend.h"

namespace vsa {

Result<std::string_view> cpu_isa() {
  const cpu::IsaChoice& choice = cpu::isa();
  if (choice.target == 0) return unsupported(fmt::format("[cpu_isa] {}", choice.detail));
  return choice.name;
}

}  // namespace vsa
