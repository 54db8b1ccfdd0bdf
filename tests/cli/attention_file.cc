#include "tests/cli/attention_file.h"

#include <stdexcept>

#include "runtime/io/safetensors_writer.h"

namespace vsa::test {

void write_tensors(const std::string& path, const std::map<std::string, TestTensor>& tensors) {
  io::TensorMap on_file;
  for (const auto& [name, tensor] : tensors) {
    const ConstTensor t = tensor.view();
    const auto& s = t.shape;
    const bool bshd = tensor.order() == Order::kBshd;
    on_file[name] = {.type = io::to_storage_type(t.dtype),
                     .shape = bshd ? std::vector<int64_t>{s[0], s[2], s[1], s[3]}
                                   : std::vector<int64_t>{s[0], s[1], s[2], s[3]},
                     .bytes = {static_cast<const std::byte*>(t.data),
                               static_cast<size_t>(t.num_elements() * size_bytes(t.dtype))}};
  }
  throw_if_error(io::write_safetensors(path, on_file));
}

ConstTensor tensor_of(const io::SafetensorsFile& file, const std::string& name, Order order) {
  const io::TensorView* t = file.find(name);
  if (t == nullptr || t->shape.size() != 4) throw std::runtime_error("no tensor " + name);
  const DType dtype = io::to_dtype(t->type).value();
  const auto& s = t->shape;
  const void* data = t->bytes.data();
  if (order == Order::kBshd) {
    return ConstTensor::bshd(data, dtype,
                             {.batch = s[0], .num_heads = s[2], .seq_len = s[1], .head_dim = s[3]});
  }
  return ConstTensor::bhsd(data, dtype,
                           {.batch = s[0], .num_heads = s[1], .seq_len = s[2], .head_dim = s[3]});
}

}  // namespace vsa::test
