#include "tests/runtime_support/stored_tensors.h"

#include <stdexcept>

namespace vsa::test {

std::vector<float> values_of(const io::TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  throw_if_error(io::copy_as_f32(tensor, values));
  return values;
}

TinyTensor golden_tensor(const io::SafetensorsFile& file, const std::string& name) {
  const io::TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error("no golden tensor " + name);
  return {view->shape, values_of(*view)};
}

TinyTensors tensors_of(const io::Checkpoint& checkpoint) {
  TinyTensors tensors;
  for (const auto& [name, view] : checkpoint.tensors()) {
    tensors[name] = {view.shape, values_of(view)};
  }
  return tensors;
}

}  // namespace vsa::test
