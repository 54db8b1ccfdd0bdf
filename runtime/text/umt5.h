// The umT5 text encoder. Host-only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/checkpoint.h"
#include "runtime/nn/buffer.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/weight_loader.h"
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
};

/// @param ignored  names of fields that mean nothing here are added
/// @return IoError (a field is missing, of a wrong type or range) | Unsupported (another
/// feed-forward)
Result<Umt5Config> parse_umt5_config(const nlohmann::json& json, std::string_view file,
                                     std::vector<std::string>& ignored);

/// Whether that tensor of a checkpoint is the table of embeddings, which stays on file.
bool is_embedding(std::string_view tensor);

/// The bucket of a relative position key - query: half the buckets for each direction, near
/// distances one by one, far ones on a logarithmic scale up to max_distance.
int64_t relative_bucket(int64_t relative, int64_t num_buckets, int64_t max_distance);

/// Text as the transformer reads it.
struct TextEmbedding {
  nn::Buffer rows;       ///< [num_rows, d_model]; rows from num_valid on are exactly 0
  int64_t num_rows = 0;  ///< the length that models pad to
  int64_t num_valid = 0;
};

/// Called after each layer with the number done; and a flag that stops the run.
struct EncodeControl {
  std::function<void(int64_t layers_done)> on_layer;
  const std::atomic<bool>* cancel = nullptr;
};

/// The encoder's layers in f32. The embedding table stays in the checkpoint, which must outlive the
/// encoder: a prompt needs few of its rows.
class Umt5Encoder {
 public:
  /// Takes its tensors, named as transformers does, from the loader.
  /// @return IoError as WeightLoader::finish
  static Result<Umt5Encoder> load(const Umt5Config& config, const io::Checkpoint& checkpoint,
                                  nn::LoadSummary& summary);

  const Umt5Config& config() const { return config_; }

  /// Runs the tokens alone - padding would be masked and thrown away - and puts zeros behind.
  /// @param ids       1 to num_rows ids
  /// @param num_rows  rows to give back
  /// @return InvalidArgument (an id outside the vocabulary, a wrong count) | Cancelled
  /// Cost: 2 FLOP per parameter of a layer and token.
  Result<TextEmbedding> encode(std::span<const int32_t> ids, int64_t num_rows,
                               const EncodeControl& control = {}) const;

 private:
  struct Layer {
    std::vector<float> norm1, norm2;      // [d_model]
    nn::Linear q, k, v, o;                // no biases, no 1/sqrt(d_kv)
    std::vector<float> relative_bias;     // [num_buckets, num_heads], of this layer alone
    nn::Linear gelu_in, linear_in, down;  // wi_0 (the GELU branch), wi_1, wo
  };
  void run_layer(const Layer& layer, int64_t tokens, nn::Buffer& x) const;

  Umt5Config config_;
  const io::TensorView* embedding_ = nullptr;  // [vocab_size, d_model]
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;
};

}  // namespace vsa::text
