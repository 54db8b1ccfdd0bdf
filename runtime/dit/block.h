// One transformer block of Wan: self-attention, cross-attention, feed-forward. Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/dit/config.h"
#include "runtime/nn/buffer.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/rope.h"
#include "runtime/nn/text_attention.h"
#include "runtime/nn/weight_loader.h"
#include "vsa/attention.h"

namespace vsa::dit {

/// Memory for one pass over a grid, reused by every layer and step.
class Activations {
 public:
  Activations(const WanConfig& config, int64_t num_tokens, bool gated);

  int64_t num_tokens = 0;
  nn::Buffer x;              ///< [num_tokens, width]: the residual stream, f32
  nn::Buffer q, k, v, attn;  ///< [num_tokens, num_heads, head_dim], raster order
  nn::Buffer gate;           ///< the same; empty without gates

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

/// What a timestep does to a layer; each [width].
struct Modulation {
  std::vector<float> shift1, scale1, gate1;  ///< self-attention; scale1 holds 1 + scale
  std::vector<float> shift2, scale2, gate2;  ///< feed-forward; scale2 holds 1 + scale
};

/// A prompt's keys and values in one layer. The padding rows of a text embedding are equal, so one
/// key stands for all of them: `bias` holds the logarithm of how many a key stands for.
struct TextKeys {
  const nn::KeyValue* kv = nullptr;
  std::span<const float> bias;  ///< [num_keys]
};

/// How a layer attends to itself: top-k kv tiles, all of them if topk == plan->num_tiles().
struct SelfAttention {
  Context context;
  const TilePlan* plan = nullptr;
  int64_t topk = 0;
  Lut lut_out;  ///< the selection that ran; may be empty
};

/// Weights of a block and its four steps; x in Activations goes in and out. Each step takes every
/// row through its whole chain while it is in the cache.
class Block {
 public:
  /// Takes the tensors `blocks.index.*`, named as diffusers does, from the loader.
  Block(nn::WeightLoader& loader, const WanConfig& config, int64_t index, bool gated);

  /// scale_shift_table + projected timestep.
  /// @param timestep  [6, width]
  Modulation modulation(std::span<const float> timestep) const;
  /// @param text  [rows, width], after the text projection
  nn::KeyValue text_keys(const float* text, int64_t rows) const;

  /// x -> q, k (normalised over all heads, turned by RoPE), v and gate.
  void project(const Modulation& modulation, const nn::Rope& rope, Activations& act) const;
  /// q, k, v, gate -> attn = fine + gate * coarse, through libvsa.
  Status attend_self(const SelfAttention& how, Activations& act) const;
  /// x += gate1 * out(attn); x += cross-attention of norm2(x) to the text.
  void attend_text(const Modulation& modulation, const TextKeys& text, Activations& act) const;
  /// x += gate2 * ffn(norm3(x) modulated). @return false if an element of x is not finite
  bool feed_forward(const Modulation& modulation, Activations& act) const;

 private:
  WanConfig config_;
  std::vector<float> scale_shift_;  // [6, width]
  nn::Linear q_, k_, v_, gate_, out_;
  std::vector<float> norm_q_, norm_k_;            // [width]; empty without qk norm
  std::vector<float> norm2_weight_, norm2_bias_;  // [width]; empty without cross_attn_norm
  nn::Linear text_q_, text_k_, text_v_, text_out_;
  std::vector<float> text_norm_q_, text_norm_k_;
  nn::Linear up_, down_;
  bool gated_ = false;
};

}  // namespace vsa::dit
