// How much memory a run needs, and whether so much is available.
#include "runtime/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/denoise.h"
#include "runtime/sampler/sampler.h"
#include "runtime/system/limits.h"
#include "runtime/text/umt5_weights.h"

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

Status check_memory(const RunPlan& plan, const dit::WanConfig& config,
                    const io::Checkpoint& transformer, const io::Checkpoint& text_encoder) {
  const int64_t available = system::available_memory_bytes();
  const auto check = [available](const char* what, int64_t needed, const char* remedy) -> Status {
    if (needed <= available) return {};
    return out_of_memory(
        fmt::format("[generate] memory: expected at least {:.2f} GiB available for {}, got {:.2f} "
                    "GiB{}",
                    gib(needed), what, gib(available), remedy));
  };
  // One after the other: the text encoder is gone when the transformer is loaded.
  VSA_TRY(check("the text encoder", text_memory_needed_bytes(text_encoder), ""));
  return check("the transformer", memory_needed_bytes(plan, config, transformer),
               "; ask for fewer frames or a smaller size");
}

}  // namespace vsa::runtime
