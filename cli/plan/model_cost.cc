// Counts FLOPs and memory of each stage of a run. Host-only.
#include "cli/plan/model_cost.h"

#include <algorithm>

#include "cli/common/cost.h"
#include "runtime/memory.h"
#include "runtime/vae/cost.h"

namespace vsa::cli {
namespace {

/// FLOPs of one prompt through umT5.
double text_flops(const text::Umt5Config& config, int64_t rows) {
  const auto n = static_cast<double>(rows);
  const auto d = static_cast<double>(config.d_model);
  const auto inner = static_cast<double>(config.inner());
  const auto ff = static_cast<double>(config.d_ff);
  const double layer = 8.0 * n * d * inner + 6.0 * n * d * ff + 4.0 * n * n * inner;
  return layer * static_cast<double>(config.num_layers);
}

/// FLOPs of the transformer by what they are for.
struct Transformer {
  double everywhere = 0.0;    ///< a pass: products of all layers and of both ends, cross-attention
  double dense_layer = 0.0;   ///< self-attention of a layer that keeps all tiles
  double sparse_layer = 0.0;  ///< of one that keeps topk, and scores them
  double prompt = 0.0;        ///< once for each prompt: keys and values of all layers
};

Transformer transformer_flops(const dit::WanConfig& config, const runtime::RunPlan& plan,
                              int64_t text_rows, bool has_gates) {
  const auto n = static_cast<double>(plan.grid.num_tokens());
  const auto d = static_cast<double>(config.width());
  const auto f = static_cast<double>(config.ffn_dim);
  const auto layers = static_cast<double>(config.num_layers);
  const auto keys = static_cast<double>(text_rows);
  const auto heads = static_cast<double>(config.num_heads);
  const auto tiles = static_cast<double>(plan.num_tiles);
  const auto patch = static_cast<double>(config.patch.volume());
  const double ends =
      2.0 * n * d * patch * static_cast<double>(config.in_channels + config.out_channels);
  const double projections = (has_gates ? 14.0 : 12.0) * n * d * d + 4.0 * n * d * f;
  const TilePlan cut = TilePlan::grid(plan.grid, plan.tiling).value();
  const double coarse = heads * pair_flops(tiles * tiles, config.head_dim);
  const double fine = heads * pair_flops(kept_pairs(cut, cut, plan.topk).expected, config.head_dim);
  return {.everywhere = ends + layers * (projections + 4.0 * n * keys * d),
          .dense_layer = 4.0 * n * n * d + (has_gates ? coarse : 0.0),
          .sparse_layer = fine + coarse,
          .prompt = layers * 4.0 * keys * d * d +
                    2.0 * keys * d * (static_cast<double>(config.text_dim) + d)};
}

}  // namespace

int64_t ModelCost::peak_bytes() const {
  return std::max({text.memory_bytes, transformer.memory_bytes, vae.memory_bytes});
}

ModelCost cost_of(const runtime::ModelFolder& model, const runtime::RunPlan& plan,
                  const ModelWeights& weights, bool has_gates) {
  const dit::WanConfig& config = model.transformer;
  const auto passes = static_cast<double>(plan.passes());
  const Transformer t = transformer_flops(config, plan, model.max_sequence_length, has_gates);
  const auto layers = static_cast<double>(config.num_layers);
  ModelCost cost;
  cost.dense_pass_flops = t.everywhere + layers * t.dense_layer;
  cost.sparse_pass_flops =
      plan.all_dense ? cost.dense_pass_flops : t.everywhere + layers * t.sparse_layer;
  cost.text = {.flops = passes * text_flops(model.text_encoder, model.max_sequence_length),
               .memory_bytes = runtime::text_memory_needed_bytes(*weights.text_encoder)};
  double denoise = passes * t.prompt;
  for (int64_t step = 0; step < plan.steps; ++step) {
    denoise += passes * t.everywhere;
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      denoise += passes * (plan.is_dense(step, layer) ? t.dense_layer : t.sparse_layer);
    }
  }
  cost.transformer = {
      .flops = denoise,
      .memory_bytes = runtime::memory_needed_bytes(plan, config, *weights.transformer)};
  if (weights.vae == nullptr) return cost;
  const std::vector<int64_t> latents = runtime::latent_shape(plan, config);
  const runtime::VaeNeeds needs = runtime::vae_memory_needed(*model.vae, latents);
  cost.vae_stripes = needs.split.stripes;
  cost.vae = {.flops = vae::decode_flops(*model.vae, latents[1], latents[2], latents[3]),
              .memory_bytes = needs.bytes};
  return cost;
}

}  // namespace vsa::cli
