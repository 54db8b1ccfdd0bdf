// How much memory a run needs, and whether so much is available.
#include "runtime/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/denoise.h"
#include "runtime/device/memory.h"
#include "runtime/dit/device/memory_needed.h"
#include "runtime/nn/parallel.h"
#include "runtime/sampler/sampler.h"
#include "runtime/system/limits.h"
#include "runtime/text/device/umt5_layout.h"
#include "runtime/text/umt5_weights.h"
#include "runtime/vae/cpu/memory.h"
#include "runtime/vae/decoder.h"
#include "runtime/vae/device/layers.h"
#include "runtime/vae/device/memory_needed.h"

namespace vsa::runtime {
namespace {

/// Weights as they are kept: in the type of the file, or f32 for a wider one.
struct Kept {
  int64_t bytes = 0;
  int64_t largest_narrow = 0;  ///< elements of the largest tensor that is narrower than f32
};

template <class Wanted>
Kept kept_weights(const io::Checkpoint& checkpoint, const Wanted& wanted) {
  Kept kept;
  for (const auto& [name, view] : checkpoint.tensors()) {
    if (!wanted(name)) continue;
    const auto size = std::min<int64_t>(io::size_bytes(view.type), sizeof(float));
    kept.bytes += view.num_elements() * size;
    if (size < static_cast<int64_t>(sizeof(float))) {
      kept.largest_narrow = std::max(kept.largest_narrow, view.num_elements());
    }
  }
  return kept;
}

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

int64_t memory_needed_bytes(const RunPlan& plan, const dit::WanConfig& config,
                            const io::Checkpoint& transformer) {
  const Kept kept = kept_weights(transformer, [](std::string_view) { return true; });
  // What the feed-forward network or the timestep multiplies with, as f32.
  const int64_t step = kept.largest_narrow == 0 ? 0
                                                : std::max(2 * config.width() * config.ffn_dim,
                                                           6 * config.width() * config.width());
  // x, q, k, v, attn and gate; and one head's k and v that the CPU backend packs.
  const int64_t activations = plan.grid.num_tokens() * (6 * config.width() + 2 * config.head_dim);
  const int64_t latents = (1 + plan.passes() + sampler::num_extra_tensors(plan.schedule.kind)) *
                          latent_size(plan, config);
  return kept.bytes + (step + activations + latents) * static_cast<int64_t>(sizeof(float));
}

int64_t text_memory_needed_bytes(const io::Checkpoint& text_encoder) {
  const Kept kept =
      kept_weights(text_encoder, [](std::string_view name) { return !text::is_embedding(name); });
  return kept.bytes + kept.largest_narrow * static_cast<int64_t>(sizeof(float));
}

VaeNeeds vae_memory_needed(const vae::VaeConfig& config, const std::vector<int64_t>& latents) {
  const vae::cpu::LatentSize size{.frames = latents[1], .height = latents[2], .width = latents[3]};
  const int64_t edge = config.spatial_factor();
  const int64_t frames =
      vae::num_decoded_frames(config, size.frames) * size.height * edge * size.width * edge * 3;
  const int64_t held = 2 * frames + latents[0] * size.frames * size.height * size.width *
                                        static_cast<int64_t>(sizeof(float));
  const int threads = nn::num_threads();
  VaeNeeds needs;
  needs.split =
      vae::cpu::choose_split(config, size, system::available_memory_bytes() - held, threads);
  needs.bytes = held + vae::cpu::decode_memory_bytes(config, size, needs.split, threads);
  return needs;
}

std::vector<int64_t> latent_shape(const RunPlan& plan, const dit::WanConfig& config) {
  return {config.in_channels, plan.grid.f * config.patch.f, plan.grid.h * config.patch.h,
          plan.grid.w * config.patch.w};
}

namespace {

Status check(const char* what, int64_t needed, const char* remedy) {
  const int64_t available = system::available_memory_bytes();
  if (needed <= available) return {};
  return out_of_memory(
      fmt::format("[generate] memory: expected at least {:.2f} GiB available for {}, got {:.2f} "
                  "GiB{}",
                  gib(needed), what, gib(available), remedy));
}

}  // namespace

Status check_vae_memory(const VaeNeeds& needs) {
  return check("the VAE", needs.bytes, "; ask for fewer frames or a smaller size");
}

Result<VaeNeeds> fit_vae(const vae::VaeConfig& config, const std::vector<int64_t>& latents,
                         const device::Memory& memory) {
  VSA_TRY(vae::device::check_network(vae::decoder_network(config)));
  const Result<int64_t> available = memory.available_bytes();
  VSA_TRY(available.status());
  const vae::device::LatentSize size{
      .frames = latents[1], .height = latents[2], .width = latents[3]};
  const DType token = memory.token_dtype();
  VaeNeeds needs;
  // A twentieth is left to the vendor's libraries, which load their kernels as they need them.
  needs.split = vae::device::choose_split(config, size, *available - *available / 20, token);
  needs.bytes = vae::device::memory_needed_bytes(config, size, needs.split, token);
  if (needs.bytes <= *available) return needs;
  return out_of_memory(fmt::format(
      "[generate] device memory: expected at least {:.2f} GiB available for the VAE, got {:.2f} "
      "GiB; ask for fewer frames or a smaller size, or take --backend cpu",
      gib(needs.bytes), gib(*available)));
}

Status check_device_memory(const RunPlan& plan, const ModelFolder& model,
                           const dit::WanWeights& transformer, const GenerateOptions& options) {
  const auto memory = device::Memory::of(options.backend, options.device);
  VSA_TRY(memory.status());
  const Result<int64_t> available = (*memory)->available_bytes();
  VSA_TRY(available.status());
  const DType token = (*memory)->token_dtype();
  // The stages follow each other, and each frees its memory before the next one begins.
  const auto fits = [&](const char* what, int64_t needed, const char* remedy) -> Status {
    if (needed <= *available) return {};
    return out_of_memory(fmt::format(
        "[generate] device memory: expected at least {:.2f} GiB available for the {}, got {:.2f} "
        "GiB; {}take --backend cpu",
        gib(needed), what, gib(*available), remedy));
  };
  VSA_TRY(
      fits("transformer",
           dit::device::memory_needed_bytes(transformer, {.token_dtype = token,
                                                          .grid = plan.grid,
                                                          .num_tiles = plan.num_tiles,
                                                          .topk = plan.topk,
                                                          .text_rows = model.max_sequence_length,
                                                          .num_prompts = plan.passes(),
                                                          .offload = options.offload}),
           options.offload ? "ask for fewer frames or a smaller size, or "
                           : "take --offload, ask for fewer frames or a smaller size, or "));
  VSA_TRY(fits(
      "text encoder",
      text::device::memory_needed_bytes(model.text_encoder, token, model.max_sequence_length), ""));
  if (!model.vae) return {};
  return fit_vae(*model.vae, latent_shape(plan, model.transformer), **memory).status();
}

Status check_memory(const RunPlan& plan, const ModelFolder& model,
                    const io::Checkpoint& transformer, const io::Checkpoint& text_encoder) {
  // The stages follow each other, and each frees its memory before the next one begins.
  if (!plan.on_device) {
    VSA_TRY(check("the text encoder", text_memory_needed_bytes(text_encoder), ""));
    VSA_TRY(check("the transformer", memory_needed_bytes(plan, model.transformer, transformer),
                  "; ask for fewer frames or a smaller size"));
  }
  if (!model.vae || plan.on_device) return {};
  return check_vae_memory(vae_memory_needed(*model.vae, latent_shape(plan, model.transformer)));
}

}  // namespace vsa::runtime
