// model_index.json: what a model folder is made of, and what it suggests. Host-only.
#include "runtime/model_index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/json_fields.h"
#include "runtime/video/write_video.h"

namespace vsa::runtime {
namespace {

using nlohmann::json;

/// The class of a component: the second of ["library", "class"]; empty for null.
Result<std::string> component_class(const json& index, const char* component) {
  const json entry = index.value(component, json());
  if (entry.is_null()) return std::string();
  const bool pair =
      entry.is_array() && entry.size() == 2 && (entry[1].is_string() || entry[1].is_null());
  if (!pair) {
    return io_error(fmt::format("[model] {}: {}: expected [library, class], got {}", kModelIndex,
                                component, entry.dump()));
  }
  return entry[1].is_null() ? std::string() : entry[1].get<std::string>();
}

/// One of the classes; an empty name stands for null.
Result<std::string> expect_class(const json& index, const char* component,
                                 const std::vector<std::string>& expected) {
  Result<std::string> found = component_class(index, component);
  if (!found.ok() || std::ranges::find(expected, *found) != expected.end()) return found;
  std::vector<std::string> shown = expected;
  std::ranges::replace(shown, "", "null");
  return unsupported(fmt::format("[model] {}: {}: expected {}, got {}: this runtime has no other",
                                 kModelIndex, component, fmt::join(shown, " or "),
                                 found->empty() ? "null" : *found));
}

/// A component that only another kind of model has.
Status expect_none(const json& index, const char* component, const char* kind) {
  const Result<std::string> found = component_class(index, component);
  VSA_TRY(found.status());
  if (found->empty()) return {};
  return unsupported(fmt::format("[model] {}: {}: expected null, got {}: {} are not supported",
                                 kModelIndex, component, *found, kind));
}

/// Wan2.2's models keep the names of Wan2.1's classes and add fields.
Status refuse_other_models(const json& index) {
  constexpr const char* kWan22 = "Wan2.2's models";
  VSA_TRY(expect_none(index, "image_encoder", "image-to-video models"));
  VSA_TRY(expect_none(index, "transformer_2", kWan22));
  for (const char* field : {"boundary_ratio", "expand_timesteps"}) {
    const json value = index.value(field, json());
    if (value.is_null() || value == json(false)) continue;
    return unsupported(fmt::format("[model] {}: {}: expected none, got {}: {} are not supported",
                                   kModelIndex, field, value.dump(), kWan22));
  }
  const std::string pipeline = index.value("_class_name", json("")).is_string()
                                   ? index.value("_class_name", std::string())
                                   : std::string();
  constexpr std::array kOthers{"ImageToVideo", "VACE", "VideoToVideo", "Animate", "Causal"};
  for (const char* other : kOthers) {
    if (pipeline.find(other) == pipeline.npos) continue;
    return unsupported(
        fmt::format("[model] {}: _class_name: expected WanPipeline or WanDMDPipeline, got {}: {} "
                    "models are not supported",
                    kModelIndex, pipeline, other));
  }
  return {};
}

Status read_section(const json& section, ModelIndex& model) {
  JsonFields fields(section, fmt::format("{}: vsa", kModelIndex));
  const auto optional = [&](const char* key, std::optional<int64_t>& value) {
    if (fields.present(key)) value = fields.integer(key, 1);
  };
  ModelDefaults& defaults = model.defaults;
  optional("steps", defaults.steps);
  optional("frames", defaults.frames);
  optional("height", defaults.height);
  optional("width", defaults.width);
  if (fields.present("guidance")) defaults.guidance = fields.number("guidance", 1.0, -1.0);
  if (fields.present("sparsity")) defaults.sparsity = fields.number("sparsity", 0.0, -1.0);
  if (fields.present("tile")) {
    const std::vector<int64_t> edges = fields.integers("tile", {4, 4, 4});
    defaults.tile = {edges[0], edges[1], edges[2]};
  }
  model.max_sequence_length = fields.integer("max_sequence_length", model.max_sequence_length);
  model.fps = fields.number("fps", model.fps, 0.0);
  if (model.fps > video::kMaxFps) {
    fields.fail(io_error(fmt::format("[config] {}: vsa: fps: expected at most {}, got {}",
                                     kModelIndex, video::kMaxFps, model.fps)));
  }
  for (std::string& word : fields.texts("trained_words")) {
    model.trained_on.words.insert(std::move(word));
  }
  if (fields.present("trained_video")) {
    model.trained_on.videos = {fields.integers("trained_video", {1, 1, 1})};
  }
  for (std::vector<int64_t>& video : fields.integer_lists("trained_videos", 3)) {
    model.trained_on.videos.push_back(std::move(video));
  }
  for (const std::string& key : fields.unread()) {
    model.ignored.push_back(fmt::format("{}: vsa.{}", kModelIndex, key));
  }
  return fields.status();
}

}  // namespace

ModelDefaults wan_defaults(bool few_steps) {
  ModelDefaults defaults{.steps = 50, .frames = 81, .height = 480, .width = 832, .guidance = 5.0};
  if (few_steps) {
    // 0.8: what FastWan2.1-T2V-1.3B was distilled with; its files do not say it.
    defaults = {
        .steps = 3, .frames = 61, .height = 448, .width = 832, .guidance = 1.0, .sparsity = 0.8};
  }
  return defaults;
}

Result<ModelIndex> parse_model_index(const json& index) {
  VSA_TRY(refuse_other_models(index));
  ModelIndex model;
  VSA_TRY(expect_class(index, "transformer", {"WanTransformer3DModel"}).status());
  VSA_TRY(expect_class(index, "text_encoder", {"UMT5EncoderModel"}).status());
  const auto vae = expect_class(index, "vae", {"", "AutoencoderKLWan"});
  VSA_TRY(vae.status());
  const auto scheduler = component_class(index, "scheduler");
  VSA_TRY(scheduler.status());
  model.has_vae = !vae->empty();
  model.scheduler = *scheduler;
  model.few_steps = index.value("_class_name", json()) == json("WanDMDPipeline");
  if (model.has_vae || model.few_steps) model.defaults = wan_defaults(model.few_steps);
  VSA_TRY(read_section(index.value("vsa", json::object()), model));
  return model;
}

}  // namespace vsa::runtime
