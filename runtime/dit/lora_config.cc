// What a LoRA's file says about its alpha, beside its tensors.
#include "runtime/dit/lora_config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/json_fields.h"

namespace vsa::dit {
namespace {

using nlohmann::json;

/// diffusers puts the component's name before each key.
json without_component(const json& object) {
  constexpr std::string_view kPrefix = "transformer.";
  json plain = json::object();
  for (const auto& [key, value] : object.items()) {
    plain[key.starts_with(kPrefix) ? key.substr(kPrefix.size()) : key] = value;
  }
  return plain;
}

Result<LoraConfig> parse(const json& object, const std::string& file) {
  runtime::JsonFields fields(object, file);
  LoraConfig config;
  if (fields.present("lora_alpha")) config.alpha = fields.number("lora_alpha", 1.0, 0.0);
  config.root_of_rank = fields.boolean("use_rslora", false);
  if (fields.boolean("use_dora", false)) {
    fields.fail(unsupported(fmt::format("[lora] {}: use_dora: expected false, got true", file)));
  }
  fields.present("alpha_pattern");
  const json given = object.value("alpha_pattern", json());
  const json patterns = given.is_object() ? given : json::object();
  for (const auto& [module, alpha] : patterns.items()) {
    if (!alpha.is_number() || module.find_first_of("\\*+?[](){}|^$") != module.npos) {
      fields.fail(unsupported(
          fmt::format("[lora] {}: alpha_pattern: expected numbers for plain names, got {}: {}",
                      file, module, alpha.dump())));
      continue;
    }
    config.alpha_pattern[module] = alpha.get<double>();
  }
  VSA_TRY(fields.status());
  return config;
}

}  // namespace

double LoraConfig::scale(const std::string& module, int64_t rank) const {
  const auto r = static_cast<double>(rank);
  double used = alpha.value_or(r);
  for (const auto& [end, value] : alpha_pattern) {
    if (module == end || module.ends_with("." + end)) used = value;
  }
  return used / (root_of_rank ? std::sqrt(r) : r);
}

Result<LoraConfig> read_lora_config(const std::filesystem::path& file,
                                    const io::Metadata& metadata) {
  if (const auto found = metadata.find("lora_adapter_metadata"); found != metadata.end()) {
    const json object = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) {
      return io_error(fmt::format(
          "[lora] {}: metadata lora_adapter_metadata: expected a JSON object, got another text",
          file.string()));
    }
    return parse(without_component(object), file.string());
  }
  const std::filesystem::path beside = file.parent_path() / "adapter_config.json";
  std::error_code ignored;  // what cannot be looked at is not there
  if (file.filename() != "adapter_model.safetensors" || !std::filesystem::exists(beside, ignored)) {
    return LoraConfig{};
  }
  const Result<json> object = runtime::read_json_object(beside.string());
  VSA_TRY(object.status());
  return parse(*object, beside.string());
}

}  // namespace vsa::dit
