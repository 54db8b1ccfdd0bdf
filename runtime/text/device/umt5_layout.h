// What the umT5 text encoder takes of a device's memory, and how it lies there. Host-only.
#pragma once

#include <cstdint>

#include "runtime/text/umt5_config.h"
#include "vsa/backend.h"
#include "vsa/tensor.h"

namespace vsa::text::device {

/// Where the products of a layer begin in its buffer, in elements; all without biases.
struct LayerLayout {
  explicit LayerLayout(const Umt5Config& config)
      : out(3 * config.inner() * config.d_model),
        gelu_in(out + config.d_model * config.inner()),
        linear_in(gelu_in + config.d_ff * config.d_model),
        down(linear_in + config.d_ff * config.d_model),
        size(down + config.d_model * config.d_ff) {}

  int64_t qkv = 0;  ///< [3 * inner, d_model]: the rows of q, then of k, then of v
  int64_t out, gelu_in, linear_in, down;
  int64_t size;
};

/// A matrix [rows, width] as tokens of several heads, for stages that know such.
/// @param step, most  the head_dims: multiples of `step` up to `most`
/// @return the largest head_dim that divides the width; 0: there is none
int64_t split_width(int64_t width, int64_t step, int64_t most);

/// Unsupported, with the field of the configuration, unless the stages take the encoder.
Status check_config(const Umt5Config& config, BackendId backend, const BackendTraits& traits);

/// Distances of two tokens, rounded up so that the biases of each head begin at an aligned address.
int64_t bias_row(int64_t num_tokens);

/// Bytes that an encoding takes, with a bound for the workspace of the library's calls.
/// @param num_tokens  of the longest prompt
int64_t memory_needed_bytes(const Umt5Config& config, DType token_dtype, int64_t num_tokens);

}  // namespace vsa::text::device
