// Divides the caller's workspace among what a call needs, or only adds it up. Host-only.
#pragma once

#include <cstdint>
#include <string_view>

#include "vsa/backend.h"

namespace vsa::cuda {

/// Take everything first, in the same order for a query and for a run; then ask `answers_query` and
/// `status`.
class Carver {
 public:
  explicit Carver(const Context& context) : context_(context) {}

  /// Memory for `count` elements at a multiple of 256 bytes; null while only adding up.
  template <class T>
  T* take(int64_t count) {
    void* at = take_bytes(count * static_cast<int64_t>(sizeof(T)));
    return static_cast<T*>(at);
  }

  /// True if the call is a query, which is then answered: return Ok.
  bool answers_query() const;
  /// Whether the workspace is large enough and aligned.
  Status status(std::string_view operation) const;

 private:
  void* take_bytes(int64_t size);
  const Context& context_;
  int64_t used_ = 0;
};

}  // namespace vsa::cuda
