// Continues an interrupted run. Host-only.
#include "runtime/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/made_by.h"

namespace vsa::runtime {
namespace {

using nlohmann::json;

/// What may differ: it changes no bit of the latents, or says how far a run came.
constexpr std::array<std::string_view, 4> kFree{"software", "model", "fps", "steps_done"};

/// The parts that the latents depend on, as options call them, and the fields of their hashes.
constexpr std::array kHashes{std::pair{"transformer", "transformer_sha256"},
                             std::pair{"text-encoder", "text_encoder_sha256"}};

constexpr const char* kLoras = "loras";

std::string shown(const json& value) { return value.is_null() ? "none" : value.dump(); }

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
  for (const auto& [part, key] : kHashes) {
    const json hash = theirs.value(key, json());
    const bool is_of_no_weights = begun.steps_done == 0 && hash == "";
    // Files of old versions say nothing of the text encoder.
    if (ours[key] == "" || is_of_no_weights || hash.is_null()) ours[key] = hash;
    if (ours[key] == hash) continue;
    return invalid_argument(
        fmt::format("[resume] {}: expected the weights of the interrupted run (SHA-256 {}), got {}",
                    part, hash.dump(), ours[key].dump()));
  }
  for (const auto& [key, value] : ours.items()) {
    if (std::ranges::find(kFree, key) != kFree.end()) continue;
    // Files of old versions say nothing of the order, which was that of cuboids.
    const json other = theirs.value(key, key == "order" ? json("raster") : json());
    if (other == value) continue;
    return invalid_argument(
        fmt::format("[resume] {}: expected {}, as the interrupted run had, got {}",
                    key == kLoras ? "lora" : key, shown(other), shown(value)));
  }
  // Only a run with LoRAs says which.
  const json loras = theirs.value(kLoras, json());
  if (ours.contains(kLoras) || loras.is_null()) return {};
  return invalid_argument(fmt::format(
      "[resume] lora: expected {}, as the interrupted run had, got none", shown(loras)));
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
