// The configuration of a Wan transformer: config.json of diffusers' WanTransformer3DModel, or of
// Wan's own repositories. Host-only.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/nn/patch.h"
#include "vsa/status.h"

namespace vsa::dit {

/// Defaults are diffusers'.
struct WanConfig {
  nn::PatchShape patch;
  int64_t num_heads = 40;
  int64_t head_dim = 128;
  int64_t in_channels = 16;
  int64_t out_channels = 16;
  int64_t text_dim = 4096;  ///< width of the text encoder's output
  int64_t freq_dim = 256;   ///< width of the timestep's sinusoidal embedding
  int64_t ffn_dim = 13824;
  int64_t num_layers = 40;
  bool cross_attn_norm = true;  ///< LayerNorm before cross-attention
  bool qk_norm = true;          ///< RMSNorm of q and k across all heads
  float eps = 1e-6F;
  int64_t rope_max_seq_len = 1024;  ///< largest grid extent on each axis, in tokens

  int64_t width() const { return num_heads * head_dim; }
};

/// Reads and checks every field, of either kind of file: Wan's own has `dim`. Fields that the
/// runtime does not use are added to `ignored`, except those of diffusers' bookkeeping (leading
/// underscore).
/// @param file  how messages name the file
/// @return IoError (a field of a wrong type or range) | Unsupported (image-to-video fields and
///         other variants this runtime does not compute; the message names the field)
Result<WanConfig> parse_wan_config(const nlohmann::json& json, std::string_view file,
                                   std::vector<std::string>& ignored);

/// Whether every product of extents stays far inside 64 bits, and halves and pairs are whole.
/// @return IoError naming the field
Status check_wan_config(const WanConfig& config, std::string_view file);

}  // namespace vsa::dit
