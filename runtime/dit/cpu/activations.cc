// The tensors of one video on the CPU. Host-only.
#include "runtime/dit/cpu/activations.h"

#include <algorithm>

#include "runtime/nn/parallel.h"

namespace vsa::dit::cpu {

Activations::Activations(const WanConfig& config, int64_t tokens, bool gated)
    : num_tokens(tokens),
      x(tokens * config.width()),
      q(tokens * config.width()),
      k(tokens * config.width()),
      v(tokens * config.width()),
      attn(tokens * config.width()),
      gate(gated ? tokens * config.width() : 0),
      widest_(std::max(config.width(),
                       config.patch.volume() * std::max(config.in_channels, config.out_channels))),
      ffn_dim_(config.ffn_dim) {}

void Activations::reserve_scratch(int num_threads) {
  while (std::ssize(scratch_) < num_threads) {
    scratch_.push_back({.a = nn::Buffer(nn::kRowBlock * widest_),
                        .b = nn::Buffer(nn::kRowBlock * widest_),
                        .hidden = nn::Buffer(nn::kRowBlock * ffn_dim_)});
  }
}

}  // namespace vsa::dit::cpu
