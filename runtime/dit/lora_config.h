// What a LoRA's file says about its alpha, beside its tensors. Host-only.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/io/safetensors.h"
#include "vsa/status.h"

namespace vsa::dit {

/// The part of peft's configuration of an adapter that changes what is computed.
struct LoraConfig {
  std::optional<double> alpha;                  ///< of all modules; none: that of the rank
  std::map<std::string, double> alpha_pattern;  ///< of modules whose names end so
  bool root_of_rank = false;                    ///< alpha / sqrt(rank) instead of alpha / rank

  /// The factor of a product.
  /// @param module  as the file names it
  double scale(const std::string& module, int64_t rank) const;
};

/// Reads it from the metadata, or from adapter_config.json beside adapter_model.safetensors.
/// @return IoError (malformed) | Unsupported (DoRA, and patterns other than plain names)
Result<LoraConfig> read_lora_config(const std::filesystem::path& file,
                                    const io::Metadata& metadata);

}  // namespace vsa::dit
