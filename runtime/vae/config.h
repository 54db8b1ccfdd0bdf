// The configuration of Wan2.1's VAE (config.json of diffusers' AutoencoderKLWan). Host-only.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa::vae {

/// Defaults are those of Wan2.1, which diffusers has too.
struct VaeConfig {
  int64_t base_dim = 96;                      ///< channels at full resolution
  int64_t z_dim = 16;                         ///< channels of the latents
  std::vector<int64_t> dim_mult{1, 2, 4, 4};  ///< channels / base_dim of each resolution
  int64_t num_res_blocks = 2;                 ///< of each resolution in the encoder
  /// Whether the step to the next lower resolution halves the frames too; one shorter than
  /// dim_mult.
  std::vector<bool> temporal_downsample{false, true, true};
  /// The transformer's latents are (latents of the VAE - mean) / std; each [z_dim].
  std::vector<float> latents_mean{-0.7571F, -0.7089F, -0.9113F, 0.1075F,  -0.1745F, 0.9653F,
                                  -0.1517F, 1.5508F,  0.4134F,  -0.0715F, 0.5517F,  -0.3632F,
                                  -0.1922F, -0.9497F, 0.2503F,  -0.2921F};
  std::vector<float> latents_std{2.8184F, 1.4541F, 2.3275F, 2.6558F, 1.2196F, 1.7708F,
                                 2.6052F, 2.0743F, 3.2687F, 2.1526F, 2.8652F, 1.5579F,
                                 1.6382F, 1.1253F, 2.8251F, 1.9160F};

  int64_t num_levels() const { return std::ssize(dim_mult); }
  int64_t dim(int64_t level) const { return base_dim * dim_mult[static_cast<size_t>(level)]; }
  /// Pixels of a latent's edge: 8 for Wan2.1.
  int64_t spatial_factor() const { return int64_t{1} << (num_levels() - 1); }
  /// Frames of a latent frame other than the first, which is one frame: 4 for Wan2.1.
  int64_t temporal_factor() const;
};

/// Reads and checks every field. Fields that the runtime does not use are added to `ignored`,
/// except those of diffusers' bookkeeping (leading underscore).
/// @param file  how messages name the file
/// @return IoError (a field of a wrong type or range) | Unsupported (another model's VAE, such as
///         Wan2.2's, and variants that this runtime does not compute; the message names the field)
Result<VaeConfig> parse_vae_config(const nlohmann::json& json, std::string_view file,
                                   std::vector<std::string>& ignored);

/// Whether a transformer's latents are this VAE's.
/// @param vae, transformer  how messages name their files
/// @return InvalidArgument naming both files and their channels
Status check_latent_channels(const VaeConfig& config, std::string_view vae, int64_t in_channels,
                             std::string_view transformer);

}  // namespace vsa::vae
