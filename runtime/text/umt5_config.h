// The configuration of a umT5 text encoder. Host-only.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa::text {

/// Fields of transformers' UMT5 config that the encoder computes with.
struct Umt5Config {
  int64_t vocab_size = 0;
  int64_t d_model = 0;
  int64_t d_kv = 0;  ///< width of a head
  int64_t num_heads = 0;
  int64_t d_ff = 0;
  int64_t num_layers = 0;
  int64_t num_buckets = 32;
  int64_t max_distance = 128;
  float eps = 1e-6F;

  int64_t inner() const { return num_heads * d_kv; }  ///< width of all heads
};

/// @param ignored  names of fields that the runtime does not use are added
/// @return IoError (a field is missing, of a wrong type or range) | Unsupported (another
/// feed-forward)
Result<Umt5Config> parse_umt5_config(const nlohmann::json& json, std::string_view file,
                                     std::vector<std::string>& ignored);

}  // namespace vsa::text
