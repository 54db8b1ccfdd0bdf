// How files of LoRAs name what they change. Host-only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/dit/tensor_names.h"

namespace vsa::dit {

/// What a tensor of the file is to the module it belongs to.
enum class LoraRole {
  kDown,      ///< [rank, in]: lora_A.weight, lora_down.weight
  kUp,        ///< [out, rank]: lora_B.weight, lora_up.weight
  kUpBias,    ///< [out], scaled as the product: lora_B.bias
  kAlpha,     ///< the product is multiplied by alpha / rank
  kAdd,       ///< added to the weight: diff
  kAddBias,   ///< added to the bias: diff_b
  kAddTable,  ///< added to the modulation of a block or of the head: diff_m
  kSet,       ///< replaces the weight: set_weight
};

/// A name taken apart.
struct LoraKey {
  std::string module;  ///< as the file has it, without prefixes of its kind
  LoraRole role = LoraRole::kDown;
  bool flat = false;  ///< with underscores for dots, as kohya's trainers write them
};

/// @return nothing if the runtime knows no LoRA tensor of such a name
std::optional<LoraKey> parse_lora_key(std::string_view name);

/// From the modules of files to the tensors of a model.
class LoraNames {
 public:
  /// @param keys   all keys of one file
  /// @param model  the tensors of the model by diffusers' names
  LoraNames(const std::vector<LoraKey>& keys, const std::set<std::string, std::less<>>& model);

  /// The tensor that a key changes, by diffusers' name; empty if the model has none.
  std::string tensor(const LoraKey& key) const;

 private:
  std::string module(const LoraKey& key) const;

  const std::set<std::string, std::less<>>& model_;
  Naming naming_ = Naming::kDiffusers;
  std::map<std::string, std::string, std::less<>> flat_;  // kohya's names of the model's modules
};

}  // namespace vsa::dit
