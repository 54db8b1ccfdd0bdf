// How much of a device's memory a transformer takes. Host-only.
#pragma once

#include <cstdint>

#include "runtime/dit/weights.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::dit::device {

/// What decides it, beside the weights.
struct MemoryQuestion {
  DType token_dtype = DType::kBF16;
  Grid grid;                ///< in tokens
  int64_t num_tiles = 0;    ///< of the plan
  int64_t topk = 0;         ///< most tiles that a layer keeps
  int64_t text_rows = 0;    ///< rows_kept of the longest prompt
  int64_t num_prompts = 1;  ///< that are there at the same time
  bool offload = false;     ///< as DeviceModel::load takes it
};

/// Bytes of the largest layer's arrays, as StreamedLayers takes them.
int64_t streamed_layer_bytes(const WanWeights& weights, DType token_dtype);

/// Bytes of weights, prompts, steps, and a bound for the workspace of the library's calls.
int64_t memory_needed_bytes(const WanWeights& weights, const MemoryQuestion& question);

}  // namespace vsa::dit::device
