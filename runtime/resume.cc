// Continues an interrupted run. Host-only.
#include "runtime/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/made_by.h"

namespace vsa::runtime {
namespace {

using nlohmann::json;

/// What may differ: it changes no bit of the latents, or says how far a run came.
constexpr std::array<std::string_view, 4> kFree{"software", "model", "fps", "steps_done"};

}  // namespace

Status check_same_run(const Latents& begun, const GenerateReport& run) {
  const json theirs = json::parse(begun.made_by, nullptr, /*allow_exceptions=*/false);
  if (!theirs.is_object()) {
    return invalid_argument(
        "[resume] vsa.made_by: expected the settings of a run, got none: the latents are not of "
        "vsa generate");
  }
  json ours = json::parse(made_by_json(run));
  // Before the first step the latents are noise, whatever the weights, and a run that is stopped
  // there may end before its files are hashed.
  const json hash = theirs.value("transformer_sha256", json());
  const bool is_of_no_weights = begun.steps_done == 0 && hash == "";
  if (run.transformer_sha256.empty() || is_of_no_weights) ours["transformer_sha256"] = hash;
  for (const auto& [key, value] : ours.items()) {
    if (std::ranges::find(kFree, key) != kFree.end()) continue;
    const json other = theirs.value(key, json());
    if (other == value) continue;
    return invalid_argument(
        fmt::format("[resume] {}: expected {}, as the interrupted run had, got {}", key,
                    other.dump(), value.dump()));
  }
  return {};
}

Status resume(const Latents& begun, const GenerateReport& run, Latents& latents,
              sampler::Sampler& sampler) {
  VSA_TRY(check_same_run(begun, run));
  if (begun.shape != latents.shape) {
    return invalid_argument(fmt::format("[resume] latents: expected {} values, got {}",
                                        latents.values.size(), begun.values.size()));
  }
  std::vector<sampler::StateTensor> state;
  for (const LatentsState& tensor : begun.state) {
    state.push_back({.name = tensor.name, .values = tensor.values.span()});
  }
  VSA_TRY(sampler.resume(begun.steps_done, state));
  std::ranges::copy(begun.values.span(), latents.values.data());
  return {};
}

void keep_progress(const sampler::Sampler& sampler, Latents& latents) {
  latents.steps_done = sampler.steps_done();
  latents.state.clear();
  if (latents.steps_done == latents.steps) return;
  for (const sampler::StateTensor& tensor : sampler.state()) {
    LatentsState& kept = latents.state.emplace_back(
        LatentsState{.name = tensor.name, .values = nn::Buffer(std::ssize(tensor.values))});
    std::ranges::copy(tensor.values, kept.values.data());
  }
}

}  // namespace vsa::runtime
