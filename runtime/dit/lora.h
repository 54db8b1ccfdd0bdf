// LoRAs and other changes of a transformer's weights, merged while they are loaded. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/weight_change.h"
#include "vsa/status.h"

namespace vsa::dit {

/// A file of changes, and their strength: 0 is without them, 1 as they were trained.
struct LoraSpec {
  std::filesystem::path file;
  double strength = 1.0;
};

/// A tensor's extents, by diffusers' names.
using TensorShapes = std::map<std::string, std::vector<int64_t>, std::less<>>;
using WeightChanges = std::map<std::string, std::shared_ptr<const nn::WeightChange>, std::less<>>;

/// What the files do to the tensors of a model, one file after the other. With s = strength:
///
///   lora_A, lora_B     W += s alpha / rank B A       (lora_down, lora_up; without alpha: s B A)
///   lora_B.bias        b += s alpha / rank bias
///   diff               W += s diff
///   diff_b, diff_m     b += s diff_b; the modulation likewise
///   set_weight         W += s (set_weight - W), so that strength 1 replaces it; before the others
///
/// Names are diffusers', peft's, Wan's, ComfyUI's or kohya's. alpha is a tensor, or `lora_alpha` in
/// the file's metadata (diffusers writes it) or in adapter_config.json beside adapter_model
/// .safetensors (peft does).
/// @param shapes  of all tensors of the model
/// @return IoError (a file that cannot be read, or tensors that do not fit the model: how many, and
///         the first of them by name) | Unsupported (DoRA)
Result<WeightChanges> open_loras(std::span<const LoraSpec> specs, const TensorShapes& shapes);

}  // namespace vsa::dit
