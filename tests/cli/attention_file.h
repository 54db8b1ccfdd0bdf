// q, k, v and gates as a user would bring them: in a safetensors file.
#pragma once

#include <map>
#include <string>

#include "runtime/io/safetensors.h"
#include "tests/support/test_tensor.h"

namespace vsa::test {

/// Writes contiguous tensors (order kBshd or kBhsd) as 4 axes in their memory order.
/// Throws vsa::Error.
void write_tensors(const std::string& path, const std::map<std::string, TestTensor>& tensors);

/// A tensor of 4 axes on file, as [B, H, S, D] if it was written in that order.
ConstTensor tensor_of(const io::SafetensorsFile& file, const std::string& name, Order order);

}  // namespace vsa::test
