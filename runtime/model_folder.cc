// A model on disk, in diffusers' folder layout: what its JSON files say. Host-only.
#include "runtime/model_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/io/weight_choice.h"
#include "runtime/json_fields.h"
#include "runtime/video/write_video.h"

namespace vsa::runtime {
namespace {

using nlohmann::json;

constexpr const char* kIndex = "model_index.json";
constexpr const char* kTransformer = "transformer/config.json";
constexpr const char* kTextEncoder = "text_encoder/config.json";
constexpr const char* kScheduler = "scheduler/scheduler_config.json";

/// The class of a component: the second of ["library", "class"]; empty for null.
Result<std::string> component_class(const json& index, const char* component) {
  const json entry = index.value(component, json());
  if (entry.is_null()) return std::string();
  const bool pair =
      entry.is_array() && entry.size() == 2 && (entry[1].is_string() || entry[1].is_null());
  if (!pair) {
    return io_error(fmt::format("[model] {}: {}: expected [library, class], got {}", kIndex,
                                component, entry.dump()));
  }
  return entry[1].is_null() ? std::string() : entry[1].get<std::string>();
}

Status expect_class(const json& index, const char* component, const std::string& expected) {
  const Result<std::string> found = component_class(index, component);
  if (!found.ok()) return found.status();
  if (*found == expected) return {};
  const auto shown = [](const std::string& name) { return name.empty() ? "null" : name; };
  return unsupported(fmt::format("[model] {}: {}: expected {}, got {}: this runtime has no other",
                                 kIndex, component, shown(expected), shown(*found)));
}

Status check_components(const json& index) {
  VSA_TRY(expect_class(index, "transformer", "WanTransformer3DModel"));
  VSA_TRY(expect_class(index, "text_encoder", "UMT5EncoderModel"));
  return expect_class(index, "vae", "");  // pixels are denoised directly
}

Status read_defaults(const json& index, ModelFolder& model) {
  const json section = index.value("vsa", json::object());
  JsonFields fields(section, fmt::format("{}: vsa", kIndex));
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
    fields.fail(io_error(fmt::format("[config] {}: vsa: fps: expected at most {}, got {}", kIndex,
                                     video::kMaxFps, model.fps)));
  }
  for (std::string& word : fields.texts("trained_words")) {
    model.trained_on.words.insert(std::move(word));
  }
  if (fields.present("trained_video")) {
    model.trained_on.video = fields.integers("trained_video", {1, 1, 1});
  }
  for (const std::string& key : fields.unread()) {
    model.ignored.push_back(fmt::format("{}: vsa.{}", kIndex, key));
  }
  return fields.status();
}

Status read_scheduler(const json& index, ModelFolder& model) {
  const Result<json> object = read_json_object((model.root / kScheduler).string());
  if (!object.ok()) return object.status();
  const auto config = sampler::parse_scheduler_config(*object, kScheduler);
  VSA_TRY(config.status());
  VSA_TRY(expect_class(index, "scheduler", object->at("_class_name").get<std::string>()));
  model.scheduler = *config;
  // Models without a VAE are trained by this repository, whose sampler shifts once.
  if (model.scheduler.kind == sampler::SchedulerKind::kEuler) {
    model.scheduler.kind = sampler::SchedulerKind::kEulerPlain;
  }
  // FastWan's folders name the sampler of the model that it was distilled from.
  if (index.value("_class_name", json()) == "WanDMDPipeline") {
    model.scheduler = sampler::fast_wan_config();
    model.defaults.steps = model.defaults.steps.value_or(std::ssize(model.scheduler.timesteps));
    model.defaults.guidance = model.defaults.guidance.value_or(1.0);
  }
  return {};
}

/// Calls parse(json, ignored fields) on one of the model's files.
template <class T, class Parse>
Status read_config(const char* file, const Parse& parse, ModelFolder& model, T& config) {
  const Result<json> object = read_json_object((model.root / file).string());
  if (!object.ok()) return object.status();
  std::vector<std::string> ignored;
  Result<T> parsed = parse(*object, file, ignored);
  if (!parsed.ok()) return parsed.status();
  config = *parsed;
  for (const std::string& key : ignored) model.ignored.push_back(fmt::format("{}: {}", file, key));
  return {};
}

/// Decides which weights each part takes.
Status choose_variants(const std::string& variant, ModelFolder& model) {
  if (variant.empty()) return {};
  const auto choose = [&](const std::filesystem::path& folder, std::string& chosen) {
    if (io::has_variant(folder, variant)) {
      chosen = variant;
    } else {
      model.warnings.push_back(
          fmt::format("variant: {} has no weights of the variant {}; its plain "
                      "ones are used",
                      folder.filename().string(), variant));
    }
  };
  choose(model.transformer_weights(), model.transformer_variant);
  choose(model.text_encoder_weights(), model.text_encoder_variant);
  if (!model.transformer_variant.empty() || !model.text_encoder_variant.empty()) return {};
  return io_error(fmt::format("[model] {}: expected weights of the variant {}, got none",
                              model.root.string(), variant));
}

}  // namespace

std::vector<std::filesystem::path> ModelFolder::config_files() {
  return {kIndex, kTransformer, kTextEncoder, kScheduler};
}

Result<ModelFolder> ModelFolder::open(const std::filesystem::path& root,
                                      const std::string& variant) {
  std::error_code failed;
  if (!std::filesystem::is_directory(root, failed)) {
    return io_error(fmt::format(
        "[model] {}: expected a model folder in diffusers' layout, got no such directory",
        root.string()));
  }
  ModelFolder model;
  model.root = root;
  const Result<json> index = read_json_object((root / kIndex).string());
  if (!index.ok()) return index.status();
  VSA_TRY(check_components(*index));
  VSA_TRY(read_defaults(*index, model));
  VSA_TRY(read_scheduler(*index, model));
  VSA_TRY(read_config(kTransformer, dit::parse_wan_config, model, model.transformer));
  VSA_TRY(read_config(kTextEncoder, text::parse_umt5_config, model, model.text_encoder));
  if (model.transformer.text_dim != model.text_encoder.d_model) {
    return io_error(fmt::format("[model] {}: text_dim: expected {} (d_model of {}), got {}",
                                kTransformer, model.text_encoder.d_model, kTextEncoder,
                                model.transformer.text_dim));
  }
  VSA_TRY(choose_variants(variant, model));
  return model;
}

Result<io::Checkpoint> ModelFolder::open_text_encoder() const {
  return io::Checkpoint::open(text_encoder_weights(), text_encoder_variant);
}

Result<io::Checkpoint> ModelFolder::open_transformer() const {
  return io::Checkpoint::open(transformer_weights(), transformer_variant);
}

Result<text::Tokenizer> ModelFolder::open_tokenizer() const {
  Result<text::Tokenizer> loaded = text::Tokenizer::load(tokenizer());
  if (!loaded.ok() || loaded->vocabulary_size() <= text_encoder.vocab_size) return loaded;
  return io_error(
      fmt::format("[model] tokenizer/spiece.model: expected at most {} pieces (vocab_size of the "
                  "text encoder), "
                  "got {}",
                  text_encoder.vocab_size, loaded->vocabulary_size()));
}

}  // namespace vsa::runtime
