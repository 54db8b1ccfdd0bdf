// The weights of a Wan transformer by name, for any device; nothing here computes. Host-only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/dit/config.h"
#include "runtime/dit/lora.h"
#include "runtime/io/checkpoint.h"
#include "runtime/nn/weight.h"
#include "runtime/nn/weight_finder.h"
#include "vsa/status.h"

namespace vsa::dit {

/// Projections of one attention and the norms of its q and k over all heads.
struct AttentionWeights {
  nn::LinearWeights q, k, v, out;
  nn::Weight norm_q, norm_k;  ///< [width]; empty without qk norm
};

struct BlockWeights {
  nn::Weight scale_shift;  ///< [6, width]: what is added to the timestep's six vectors
  AttentionWeights self;
  nn::LinearWeights gate;                       ///< of the coarse branch; empty without gates
  nn::Weight text_norm_weight, text_norm_bias;  ///< [width]; empty without cross_attn_norm
  AttentionWeights text;
  nn::LinearWeights up, down;  ///< the feed-forward network, GELU between them
};

struct WanWeights {
  WanConfig config;
  bool has_gates = false;
  nn::LinearWeights patch_embedding;
  nn::LinearWeights text_in, text_out;             ///< GELU between them
  nn::LinearWeights time_in, time_out, time_proj;  ///< SiLU before the second and the third
  std::vector<BlockWeights> blocks;
  nn::Weight head_scale_shift;  ///< [2, width]: shift, scale
  nn::LinearWeights head;
};

struct LoadReport {
  nn::LoadSummary summary;
  std::string naming;
  bool has_gates = false;
  int64_t changed = 0;  ///< tensors that LoRAs change
};

/// @param checkpoint  must outlive the weights
/// @param loras       merged when the weights are used, one after the other
/// @return IoError: tensors missing, of a wrong shape or type, names of no known naming, gates
///         in some layers only, or a LoRA that does not fit
Result<WanWeights> find_weights(const WanConfig& config, const io::Checkpoint& checkpoint,
                                LoadReport& report, std::span<const LoraSpec> loras = {});

}  // namespace vsa::dit
