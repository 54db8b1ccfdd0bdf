// The weights of a umT5 text encoder by name, for any device; nothing here computes. Host-only.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/nn/weight.h"
#include "runtime/nn/weight_finder.h"
#include "runtime/text/umt5_config.h"
#include "vsa/status.h"

namespace vsa::text {

/// One layer; no biases, and no 1/sqrt(d_kv) in the attention.
struct Umt5LayerWeights {
  nn::Weight norm1, norm2;  ///< [d_model]
  nn::LinearWeights q, k, v, out;
  nn::Weight relative_bias;              ///< [num_buckets, num_heads], of this layer alone
  nn::LinearWeights gelu_in, linear_in;  ///< wi_0 (the GELU branch) and wi_1, multiplied
  nn::LinearWeights down;                ///< wo
};

struct Umt5Weights {
  Umt5Config config;
  nn::Weight embedding;  ///< [vocab_size, d_model]; a prompt reads few of its rows
  std::vector<Umt5LayerWeights> layers;
  nn::Weight final_norm;  ///< [d_model]
};

/// Whether that tensor of a checkpoint is the table of embeddings.
bool is_embedding(std::string_view tensor);

/// @param checkpoint  with names of transformers or of Wan; must outlive the weights
/// @return IoError as WeightFinder::finish
Result<Umt5Weights> find_umt5_weights(const Umt5Config& config, const io::Checkpoint& checkpoint,
                                      nn::LoadSummary& summary);

}  // namespace vsa::text
