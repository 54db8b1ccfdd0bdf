// A tiny model's transformer under the names other projects give its tensors.
#pragma once

#include "tests/runtime_support/tiny_model.h"

namespace vsa::test {

/// Names of Wan's own checkpoints.
TinyTensors with_wan_names(const TinyTensors& diffusers);
/// Names of the decoder in Wan's own VAE; the encoder is left out.
/// @param num_res_blocks  of the configuration
TinyTensors with_wan_vae_names(const TinyTensors& diffusers, int64_t num_res_blocks);
/// Names of the text encoder in Wan's own file.
TinyTensors with_wan_t5_names(const TinyTensors& transformers);
/// Names of FastVideo's modules.
TinyTensors with_fastvideo_names(const TinyTensors& diffusers);

}  // namespace vsa::test
