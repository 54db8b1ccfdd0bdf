// What every function of the C ABI is wrapped in: no exception leaves, the error text is kept.
// Host-only.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <new>

#include "vsa/c_api.h"
#include "vsa/status.h"
#include "vsa/tiling.h"

/// The C handle of a plan.
struct vsa_plan {
  vsa::TilePlan plan;
};

namespace vsa::c_api {

/// Keeps the text for vsa_last_error() of this thread, cut at 1023 bytes. Does not allocate.
void set_last_error(const char* text) noexcept;

/// Runs `body`, which returns a Status, and turns the outcome into what C sees.
template <class Body>
vsa_status guarded(const Body& body) noexcept {
  try {
    const Status status = body();
    set_last_error(status.message().c_str());
    return static_cast<vsa_status>(status.code());
  } catch (const std::bad_alloc&) {
    set_last_error("[vsa] not enough memory");
    return VSA_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    set_last_error(e.what());
    return VSA_INTERNAL;
  } catch (...) {
    set_last_error("[vsa] unknown exception");
    return VSA_INTERNAL;
  }
}

inline Status null_argument(std::string_view operation, std::string_view argument) {
  return invalid_argument(
      fmt::format("[{}] {}: expected a pointer, got NULL", operation, argument));
}

/// A struct that says how large the caller believes it to be.
template <class Struct>
Status check_struct(std::string_view operation, std::string_view argument, const Struct* s) {
  if (s == nullptr) return null_argument(operation, argument);
  if (s->struct_size == sizeof(Struct)) return {};
  return invalid_argument(
      fmt::format("[{}] {}: expected struct_size {}, got {}; set it to sizeof of the struct and "
                  "compile against the header of vsa {}",
                  operation, argument, sizeof(Struct), s->struct_size, VSA_VERSION_STRING));
}

}  // namespace vsa::c_api
