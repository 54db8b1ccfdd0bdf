// What a run will need in memory, and whether that is there.
#include "runtime/memory.h"

#include <fmt/format.h>

#include "runtime/denoise.h"
#include "runtime/system/limits.h"
#include "runtime/text/umt5.h"

namespace vsa::runtime {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

int64_t memory_needed_bytes(const RunPlan& plan, const dit::WanConfig& config,
                            const io::Checkpoint& transformer) {
  int64_t parameters = 0;
  for (const auto& [name, view] : transformer.tensors()) parameters += view.num_elements();
  // x, q, k, v, attn and gate; and one head's k and v that the CPU backend packs.
  const int64_t activations = plan.grid.num_tokens() * (6 * config.width() + 2 * config.head_dim);
  const int64_t latents = (1 + plan.passes()) * latent_size(plan, config);
  return (parameters + activations + latents) * static_cast<int64_t>(sizeof(float));
}

int64_t text_memory_needed_bytes(const io::Checkpoint& text_encoder) {
  int64_t parameters = 0;
  for (const auto& [name, view] : text_encoder.tensors()) {
    if (!text::is_embedding(name)) parameters += view.num_elements();
  }
  return parameters * static_cast<int64_t>(sizeof(float));
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
