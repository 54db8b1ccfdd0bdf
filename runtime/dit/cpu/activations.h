// The tensors of one video on the CPU. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/dit/config.h"
#include "runtime/nn/buffer.h"
#include "runtime/nn/linear.h"

namespace vsa::dit::cpu {

/// Memory for one pass over a grid, reused by every layer and step.
class Activations {
 public:
  Activations(const WanConfig& config, int64_t num_tokens, bool gated);

  int64_t num_tokens = 0;
  nn::Buffer x;              ///< [num_tokens, width]: the residual stream, f32
  nn::Buffer q, k, v, attn;  ///< [num_tokens, num_heads, head_dim], raster order
  nn::Buffer gate;           ///< the same; empty without gates
  nn::WeightSpace space;     ///< f32 weights of the step that runs

  /// Of one thread, for a block of rows.
  struct Scratch {
    nn::Buffer a, b;    ///< [kRowBlock, width], or a patch if that is wider
    nn::Buffer hidden;  ///< [kRowBlock, ffn_dim]
  };
  /// One for each thread that parallel_rows may use; call before a pass.
  void reserve_scratch(int num_threads);
  Scratch& of_thread(int thread) { return scratch_[static_cast<size_t>(thread)]; }

 private:
  int64_t widest_ = 0, ffn_dim_ = 0;
  std::vector<Scratch> scratch_;
};

}  // namespace vsa::dit::cpu
