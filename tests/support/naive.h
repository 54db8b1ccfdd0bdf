// Attention straight from the definition, without tiles: an oracle that shares nothing with the
// stages but the numbers they are given. In f64.
#pragma once

#include <functional>

#include "tests/support/run.h"

namespace vsa::test {

/// Whether query position i of head (b, h) may attend to key position j.
using TokenMask = std::function<bool(int64_t b, int64_t h, int64_t i, int64_t j)>;

/// The table expanded to tokens: true where j is a valid token of a tile kept by i's tile. The
/// table must outlive the mask.
TokenMask token_mask(const Qkv& in, const ConstLut& lut);

/// softmax over the allowed j of scale * q_i . k_j, times v_j; 0 and -inf where nothing is allowed.
/// Only the rows listed, all if none is; the others stay NaN.
FineResult naive_attention(const Qkv& in, const TokenMask& mask,
                           const std::vector<int64_t>& rows = {});

/// The coarse branch at every token, from the definition: the softmax over the means of tiles that
/// have a token; 0 at padding.
TestTensor naive_coarse(const Qkv& in);

}  // namespace vsa::test
