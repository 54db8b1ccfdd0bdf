// How files of LoRAs name what they change.
#include "runtime/dit/lora_names.h"

#include <algorithm>
#include <array>

namespace vsa::dit {
namespace {

/// The end of a name. `middle`: the adapter's name that peft may put before ".weight".
struct Suffix {
  std::string_view text;
  LoraRole role;
};
constexpr std::array kSuffixes{
    Suffix{".lora_A.weight", LoraRole::kDown},    Suffix{".lora_down.weight", LoraRole::kDown},
    Suffix{".lora.down.weight", LoraRole::kDown}, Suffix{".lora_B.weight", LoraRole::kUp},
    Suffix{".lora_up.weight", LoraRole::kUp},     Suffix{".lora.up.weight", LoraRole::kUp},
    Suffix{".lora_B.bias", LoraRole::kUpBias},    Suffix{".lora_up.bias", LoraRole::kUpBias},
    Suffix{".alpha", LoraRole::kAlpha},           Suffix{".diff", LoraRole::kAdd},
    Suffix{".diff_b", LoraRole::kAddBias},        Suffix{".diff_m", LoraRole::kAddTable},
    Suffix{".set_weight", LoraRole::kSet},
};

/// "x.lora_A.default.weight" -> "x.lora_A.weight": peft's own files name the adapter.
std::string without_adapter_name(std::string_view name) {
  for (const std::string_view half : {".lora_A.", ".lora_B."}) {
    const size_t at = name.find(half);
    if (at == name.npos) continue;
    const std::string_view rest = name.substr(at + half.size());
    const size_t dot = rest.find('.');
    if (dot == rest.npos || rest.find('.', dot + 1) != rest.npos) continue;
    return std::string(name.substr(0, at + half.size())) + std::string(rest.substr(dot + 1));
  }
  return std::string(name);
}

/// Prefixes in front of a transformer's names: peft's, diffusers', ComfyUI's.
constexpr std::array<std::string_view, 4> kPrefixes{"base_model.model.", "model.diffusion_model.",
                                                    "diffusion_model.", "transformer."};
constexpr std::array<std::string_view, 2> kFlatPrefixes{"lora_unet__", "lora_unet_"};

std::string flattened(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name;
}

bool contains(const std::string& name, std::string_view part) {
  return name.find(part) != name.npos;
}

/// Whose names these are, by modules that only one of the three has. Names that all share, as
/// norm_q, say nothing.
bool is_original(const std::string& module) {
  return contains(module, "self_attn.") || contains(module, "cross_attn.") ||
         module.ends_with("ffn.0") || module.ends_with("ffn.2") || module.starts_with("text_emb") ||
         module.starts_with("time_") || module.starts_with("head") || contains(module, "norm3") ||
         module.ends_with("modulation");
}

bool is_fastvideo(const std::string& module) {
  constexpr std::array<std::string_view, 4> kProjections{"to_q", "to_k", "to_v", "to_out"};
  const size_t dot = module.find('.', 7);
  const bool in_block = module.starts_with("blocks.") && dot != module.npos;
  return (in_block &&
          std::ranges::find(kProjections, module.substr(dot + 1)) != kProjections.end()) ||
         contains(module, ".fc_in") || contains(module, ".fc_out");
}

}  // namespace

std::optional<LoraKey> parse_lora_key(std::string_view file_name) {
  const std::string plain = without_adapter_name(file_name);
  std::string_view name = plain;
  LoraKey key;
  const auto suffix = std::ranges::find_if(
      kSuffixes, [&](const Suffix& candidate) { return name.ends_with(candidate.text); });
  if (suffix == kSuffixes.end()) return {};
  key.role = suffix->role;
  name.remove_suffix(suffix->text.size());
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  for (const std::string_view prefix : kFlatPrefixes) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    key.flat = true;
    break;
  }
  key.module = name;
  return key;
}

LoraNames::LoraNames(const std::vector<LoraKey>& keys,
                     const std::set<std::string, std::less<>>& model)
    : model_(model) {
  for (const LoraKey& key : keys) {
    if (key.flat) continue;
    if (is_fastvideo(key.module)) {
      naming_ = Naming::kFastVideo;
    } else if (is_original(key.module)) {
      naming_ = Naming::kOriginal;
    }
  }
  for (const std::string& tensor : model) {
    constexpr std::string_view kWeight = ".weight";
    if (!tensor.ends_with(kWeight)) continue;
    const std::string name = tensor.substr(0, tensor.size() - kWeight.size());
    flat_.emplace(flattened(original_name(name)), name);
    flat_.emplace(flattened(name), name);  // those of Wan's names go first: norm2 has no weights
  }
}

std::string LoraNames::module(const LoraKey& key) const {
  if (!key.flat) return diffusers_name(key.module, naming_);
  const auto found = flat_.find(key.module);
  return found == flat_.end() ? std::string() : found->second;
}

std::string LoraNames::tensor(const LoraKey& key) const {
  if (key.role == LoraRole::kAddTable) {
    const std::string table = diffusers_name(key.module + ".modulation", Naming::kOriginal);
    return model_.contains(table) ? table : std::string();
  }
  const std::string name = module(key);
  if (key.role == LoraRole::kAddBias || key.role == LoraRole::kUpBias) {
    return model_.contains(name + ".bias") ? name + ".bias" : std::string();
  }
  if (model_.contains(name + ".weight")) return name + ".weight";
  return model_.contains(name) ? name : std::string();  // a tensor that is no module's weight
}

}  // namespace vsa::dit
