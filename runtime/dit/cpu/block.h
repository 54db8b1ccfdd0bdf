// One transformer block of Wan on the CPU: self-attention, cross-attention, feed-forward.
// Host-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/dit/cpu/activations.h"
#include "runtime/dit/modulation.h"
#include "runtime/dit/weights.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/rope.h"
#include "runtime/nn/text_attention.h"
#include "vsa/attention.h"

namespace vsa::dit::cpu {

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

/// A block's weights and its four steps; x in Activations goes in and out. Each step takes every
/// row through its whole chain while it is in the cache.
class Block {
 public:
  /// Copies the weights in the type they are stored in.
  Block(const BlockWeights& weights, const WanConfig& config);

  /// @param text  [rows, width], after the text projection
  nn::KeyValue text_keys(const float* text, int64_t rows, nn::WeightSpace& space) const;

  /// x -> q, k (normalised over all heads, turned by RoPE), v and gate.
  void project(const Modulation& modulation, const nn::Rope& rope, Activations& act) const;
  /// q, k, v, gate -> attn = fine + gate * coarse, through libvsa.
  Status attend_self(const SelfAttention& how, Activations& act) const;
  /// x += gate1 * out(attn); x += cross-attention of norm2(x) to the text.
  void attend_text(const Modulation& modulation, const TextKeys& text, Activations& act) const;
  /// x += gate2 * ffn(norm3(x) modulated). @return false if an element of x is not finite
  bool feed_forward(const Modulation& modulation, Activations& act) const;

 private:
  /// One attention's projections, and what its q and k are normalised with.
  struct Attention {
    explicit Attention(const AttentionWeights& weights);
    nn::Linear q, k, v, out;
    std::vector<float> norm_q, norm_k;  // [width]; empty without qk norm
  };

  WanConfig config_;
  bool gated_ = false;
  Attention self_;
  nn::Linear gate_;
  std::vector<float> text_norm_weight_, text_norm_bias_;  // [width]; empty without cross_attn_norm
  Attention text_;
  nn::Linear up_, down_;
};

}  // namespace vsa::dit::cpu
