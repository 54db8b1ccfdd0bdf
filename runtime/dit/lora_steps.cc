// What LoRAs do to one tensor: the arithmetic.
#include "runtime/dit/lora_steps.h"

#include "runtime/nn/buffer.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/parallel.h"

namespace vsa::dit {
namespace {

nn::Buffer as_f32(const io::TensorView& view) {
  nn::Buffer values(view.num_elements());
  throw_if_error(io::copy_as_f32(view, values.span()));
  return values;
}

/// values [out, in] += scale * up [out, rank] down [rank, in], as a linear layer with the weight
/// down^T over the rows of up.
void add_product(const LoraStep& step, std::span<float> values) {
  const int64_t rank = step.down.shape[0];
  const int64_t in = step.down.num_elements() / rank;
  const int64_t out = std::ssize(values) / in;
  nn::Buffer up = as_f32(step.up);
  const auto scale = static_cast<float>(step.scale);
  for (float& x : up.span()) x *= scale;
  const nn::Buffer down = as_f32(step.down);
  nn::Buffer transposed(in * rank);  // [in, rank]
  for (int64_t r = 0; r < rank; ++r) {
    for (int64_t i = 0; i < in; ++i) transposed.data()[i * rank + r] = down.data()[r * in + i];
  }
  const nn::Linear layer(
      {.dims = {.in = rank, .out = in},
       .weight = {.name = "down", .shape = {in, rank}, .bytes = std::as_bytes(transposed.span())},
       .bias = {}},
      nn::Activation::kNone, nn::Keep::kMapped);
  nn::WeightSpace space;
  const nn::ReadyLinear product = layer.ready(space);
  nn::parallel_rows(out, [&](const nn::RowBlock& rows) {
    nn::Buffer block(rows.size() * in);
    product.forward_block(up.data() + rows.begin * rank, rows.size(), block.data());
    float* const to = values.data() + rows.begin * in;
    for (int64_t i = 0; i < block.size(); ++i) to[i] += block.data()[i];
  });
}

}  // namespace

void LoraSteps::apply(std::span<float> values) const {
  for (const LoraStep& step : steps_) {
    if (step.scale == 0.0) continue;
    if (step.kind == LoraStep::Kind::kProduct) {
      add_product(step, values);
      continue;
    }
    const nn::Buffer given = as_f32(step.up);
    const auto scale = static_cast<float>(step.scale);
    const bool replaces = step.kind == LoraStep::Kind::kReplace;
    for (size_t i = 0; i < values.size(); ++i) {
      const float x = given.data()[i];
      if (replaces && scale == 1.0F) {
        values[i] = x;
      } else {
        values[i] += scale * (replaces ? x - values[i] : x);
      }
    }
  }
}

}  // namespace vsa::dit
