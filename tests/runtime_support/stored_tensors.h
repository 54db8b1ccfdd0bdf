// Tensors of files by value, as tests compare and rewrite them.
#pragma once

#include <string>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/io/safetensors.h"
#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {

/// The numbers of a stored tensor, as f32.
std::vector<float> values_of(const io::TensorView& tensor);

/// A tensor of a golden file; throws std::runtime_error if the file lacks it.
TinyTensor golden_tensor(const io::SafetensorsFile& file, const std::string& name);

/// All tensors of a checkpoint.
TinyTensors tensors_of(const io::Checkpoint& checkpoint);

}  // namespace vsa::test
