// The umT5 text encoder: from token ids to a text embedding, on any device. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/text/text_embedding.h"
#include "runtime/text/umt5_steps.h"
#include "runtime/text/umt5_weights.h"
#include "vsa/status.h"

namespace vsa::text {

/// Called after each layer with the number done; and a flag that stops the run.
struct EncodeControl {
  std::function<void(int64_t layers_done)> on_layer;
  const std::atomic<bool>* cancel = nullptr;
};

/// The order of the steps. The embedding table stays in the checkpoint, which must outlive the
/// encoder: a prompt needs few of its rows.
class Umt5Encoder {
 public:
  /// @param steps  made from the same weights, such as by cpu::make_steps
  Umt5Encoder(Umt5Weights weights, std::unique_ptr<Umt5Steps> steps);

  const Umt5Config& config() const { return weights_.config; }

  /// Encodes the tokens without padding, which would be masked and thrown away; the rows after them
  /// become zeros.
  /// @param ids       1 to num_rows ids
  /// @param num_rows  rows to give back
  /// @return InvalidArgument (an id outside the vocabulary, a wrong count) | Cancelled | errors of
  ///         the steps
  /// Cost: 2 FLOP per parameter of a layer and token.
  Result<TextEmbedding> encode(std::span<const int32_t> ids, int64_t num_rows,
                               const EncodeControl& control = {});

 private:
  Umt5Weights weights_;
  std::unique_ptr<Umt5Steps> steps_;
};

}  // namespace vsa::text
