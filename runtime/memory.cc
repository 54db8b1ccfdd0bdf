// What a run will need in memory, and what there is. Host-only.
#include "runtime/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "runtime/denoise.h"
#include "runtime/text/umt5.h"

namespace vsa::runtime {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// The number of KiB after `key:` in a file of /proc, in bytes.
std::optional<int64_t> proc_bytes(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) {
      return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
    }
  }
  return {};
}

/// What control groups (version 2) leave; "max" reads as no number.
int64_t left_of_control_group() {
  int64_t most = 0;
  int64_t used = 0;
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  std::ifstream current("/sys/fs/cgroup/memory.current");
  if (!(limit >> most) || !(current >> used)) return kUnlimited;
  return std::max(int64_t{0}, most - used);
}

int64_t left_of_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const int64_t used = proc_bytes("/proc/self/status", "VmSize").value_or(0);
  return std::max(int64_t{0}, static_cast<int64_t>(limit.rlim_cur) - used);
}

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

int64_t memory_available_bytes() {
  const int64_t machine = proc_bytes("/proc/meminfo", "MemAvailable").value_or(kUnlimited);
  return std::min({machine, left_of_control_group(), left_of_address_space()});
}

Status check_memory(const RunPlan& plan, const dit::WanConfig& config,
                    const io::Checkpoint& transformer, const io::Checkpoint& text_encoder) {
  const int64_t available = memory_available_bytes();
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
