// Divides the workspace of a call (workspace.h). Host-only.
#include "src/cuda/support/workspace.h"

#include <fmt/format.h>

namespace vsa::cuda {
namespace {
constexpr int64_t kAlignment = 256;
constexpr int64_t kMost = INT64_MAX / kAlignment * kAlignment;
}  // namespace

void* Carver::take_bytes(int64_t size) {
  const int64_t at = used_;
  if (size > kMost - at) {
    used_ = kMost;
    return nullptr;
  }
  used_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  if (context_.workspace_query != nullptr || used_ > context_.workspace.size_bytes) return nullptr;
  return static_cast<uint8_t*>(context_.workspace.data) + at;
}

bool Carver::answers_query() const {
  if (context_.workspace_query == nullptr) return false;
  *context_.workspace_query = used_;
  return true;
}

Status Carver::status(std::string_view operation) const {
  if (used_ == 0) return {};  // a call that needs no workspace may have none
  const auto address = reinterpret_cast<uintptr_t>(context_.workspace.data);
  if (used_ <= context_.workspace.size_bytes && address % kAlignment == 0 && address != 0) {
    return {};
  }
  return invalid_argument(fmt::format(
      "[{}] workspace: expected {} bytes at a multiple of {}, got {} at {}; ask for the number "
      "with workspace_query",
      operation, used_, kAlignment, context_.workspace.size_bytes, context_.workspace.data));
}

}  // namespace vsa::cuda
