// A model on disk: where its parts are, and what its JSON files or the shapes of its tensors say.
#include "runtime/model_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/dit/inferred_config.h"
#include "runtime/dit/other_models.h"
#include "runtime/dit/tensor_names.h"
#include "runtime/io/weight_choice.h"
#include "runtime/json_fields.h"
#include "runtime/text/inferred_config.h"
#include "runtime/text/tensor_names.h"
#include "runtime/vae/tensor_names.h"

namespace vsa::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kScheduler = "scheduler/scheduler_config.json";

/// A path as messages show it: relative to the model's folder if it lies there.
std::string shown(const ModelFolder& model, const fs::path& path) {
  const fs::path relative = path.lexically_relative(model.root);
  return relative.empty() || *relative.begin() == ".." ? path.string() : relative.string();
}

Result<json> read_json(const fs::path& path, ModelFolder& model) {
  Result<json> object = read_json_object(path.string());
  if (object.ok()) model.config_files.push_back(path);
  return object;
}

/// Calls parse(json, file, ignored fields) on one of the model's files.
template <class T, class Parse>
Result<T> read_config(const fs::path& path, const Parse& parse, ModelFolder& model) {
  const Result<json> object = read_json(path, model);
  if (!object.ok()) return object.status();
  const std::string file = shown(model, path);
  std::vector<std::string> ignored;
  Result<T> parsed = parse(*object, file, ignored);
  for (const std::string& key : ignored) model.ignored.push_back(fmt::format("{}: {}", file, key));
  return parsed;
}

/// The sampler that the folder's files name, or the one that such a model needs.
Status read_scheduler(const ModelIndex& index, ModelFolder& model) {
  const Result<json> object = read_json(model.root / kScheduler, model);
  VSA_TRY(object.status());
  const auto config = sampler::parse_scheduler_config(*object, kScheduler);
  VSA_TRY(config.status());
  if (const std::string name = object->at("_class_name").get<std::string>();
      name != index.scheduler) {
    return unsupported(fmt::format("[model] {}: scheduler: expected {} (the class of {}), got {}",
                                   kModelIndex, name, kScheduler,
                                   index.scheduler.empty() ? "null" : index.scheduler));
  }
  model.scheduler = *config;
  // Models without a VAE are trained by this repository, whose sampler shifts once.
  if (!index.has_vae && model.scheduler.kind == sampler::SchedulerKind::kEuler) {
    model.scheduler.kind = sampler::SchedulerKind::kEulerPlain;
  }
  // FastWan's folders name the sampler of the model that it was distilled from.
  if (index.few_steps) model.scheduler = sampler::fast_wan_config();
  return {};
}

/// A folder near the one that is meant: that of a part, or that of all versions of a model in the
/// cache of Hugging Face.
Status check_root(const fs::path& root) {
  std::error_code ignored;  // what cannot be looked at is not there
  if (fs::exists(root / kModelIndex, ignored)) return {};
  std::string meant;
  const fs::path whole = fs::weakly_canonical(root, ignored).parent_path();
  if (fs::exists(whole / kModelIndex, ignored)) meant = whole.string();
  for (fs::directory_iterator it(root / "snapshots", ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (fs::exists(it->path() / kModelIndex, ignored)) meant = it->path().string();
  }
  if (meant.empty()) return {};
  return io_error(fmt::format("[model] {}: expected a model's folder, which has a {}; {} has one",
                              root.string(), kModelIndex, meant));
}

Status read_index(ModelFolder& model) {
  VSA_TRY(check_root(model.root));
  if (is_wan_repository(model.root)) {
    model.vae.emplace();
    model.defaults = wan_defaults(/*few_steps=*/false);
    // What Wan's own generate.py does.
    model.scheduler = {.kind = sampler::SchedulerKind::kUniPcWan, .shift = 5.0, .timesteps = {}};
    return {};
  }
  const Result<json> object = read_json(model.root / kModelIndex, model);
  VSA_TRY(object.status());
  const Result<ModelIndex> index = parse_model_index(*object);
  VSA_TRY(index.status());
  if (index->has_vae) model.vae.emplace();
  model.few_steps = index->few_steps;
  model.defaults = index->defaults;
  model.trained_on = index->trained_on;
  model.max_sequence_length = index->max_sequence_length;
  model.fps = index->fps;
  model.ignored = index->ignored;
  return read_scheduler(*index, model);
}

Status locate_parts(const ModelChoice& choice, ModelFolder& model) {
  const PartPaths& parts = choice.parts;
  const auto locate = [&](Part part, const fs::path& elsewhere, PartLocation& at) -> Status {
    Result<PartLocation> located = locate_part(part, model.root, elsewhere);
    VSA_TRY(located.status());
    at = std::move(*located);
    return {};
  };
  if (!choice.vae_alone) {
    VSA_TRY(locate(Part::kTransformer, parts.transformer, model.transformer_at));
    VSA_TRY(locate(Part::kTextEncoder, parts.text_encoder, model.text_encoder_at));
  }
  if (model.vae) return locate(Part::kVae, parts.vae, model.vae_at);
  if (parts.vae.empty()) return {};
  return invalid_argument(fmt::format("[model] vae: expected none, as {} makes pixels, got {}",
                                      model.root.string(), parts.vae.string()));
}

Status read_transformer(const PartPaths& parts, ModelFolder& model) {
  const PartLocation& at = model.transformer_at;
  std::optional<dit::WanConfig> own;
  if (const fs::path there = model.root / name(Part::kTransformer) / "config.json";
      at.config.empty() && !parts.transformer.empty() && fs::exists(there)) {
    const auto read = read_config<dit::WanConfig>(there, dit::parse_wan_config, model);
    VSA_TRY(read.status());
    own = *read;
  }
  Result<dit::WanConfig> config = Status();
  if (!at.config.empty()) {
    config = read_config<dit::WanConfig>(at.config, dit::parse_wan_config, model);
  } else {
    const auto weights = model.open_transformer();
    VSA_TRY(weights.status());
    config = dit::infer_wan_config(*weights, own);
    VSA_TRY(weights->in_file(config.status()));
  }
  VSA_TRY(config.status());
  model.transformer = *config;
  return {};
}

Status read_text_encoder(ModelFolder& model) {
  const PartLocation& at = model.text_encoder_at;
  Result<text::Umt5Config> config = Status();
  if (!at.config.empty()) {
    config = read_config<text::Umt5Config>(at.config, text::parse_umt5_config, model);
  } else {
    const auto weights = model.open_text_encoder();
    VSA_TRY(weights.status());
    config = text::infer_umt5_config(*weights);
    VSA_TRY(weights->in_file(config.status()));
  }
  VSA_TRY(config.status());
  model.text_encoder = *config;
  if (model.transformer.text_dim == model.text_encoder.d_model) return {};
  return io_error(
      fmt::format("[model] {}: text_dim: expected {} (d_model of {}), got {}",
                  shown(model, model.transformer_at.weights), model.text_encoder.d_model,
                  shown(model, model.text_encoder_at.weights), model.transformer.text_dim));
}

/// A file of weights without a config is that of Wan2.1, or has the structure of the model's own
/// VAE.
Status read_vae(ModelFolder& model) {
  if (!model.vae) return {};
  const fs::path own = model.root / name(Part::kVae) / "config.json";
  const fs::path file = !model.vae_at.config.empty() ? model.vae_at.config : own;
  std::error_code ignored;  // what cannot be looked at is not there
  if (!model.vae_at.config.empty() || fs::exists(own, ignored)) {
    const auto read = read_config<vae::VaeConfig>(file, vae::parse_vae_config, model);
    VSA_TRY(read.status());
    model.vae = *read;
  }
  return {};
}

/// Decides which weights each part takes.
Status choose_variants(const ModelChoice& selection, ModelFolder& model) {
  const std::string& variant = selection.variant;
  if (variant.empty()) return {};
  bool found = false;
  const auto choose = [&](Part part, const fs::path& weights, std::string& chosen) {
    std::error_code ignored;  // what cannot be looked at is reported when it is opened
    if (!fs::is_directory(weights, ignored)) return;  // a file was chosen by its name
    if (io::has_variant(weights, variant)) {
      chosen = variant;
      found = true;
      return;
    }
    model.warnings.push_back(
        fmt::format("variant: {} has no weights of the variant {}; its plain ones are used",
                    name(part), variant));
  };
  if (!selection.vae_alone) {
    choose(Part::kTransformer, model.transformer_at.weights, model.transformer_variant);
    choose(Part::kTextEncoder, model.text_encoder_at.weights, model.text_encoder_variant);
  }
  if (model.vae) choose(Part::kVae, model.vae_at.weights, model.vae_variant);
  if (found || selection.vae_alone) return {};  // in a run another part may have had it
  return io_error(fmt::format("[model] {}: expected weights of the variant {}, got none",
                              model.root.string(), variant));
}

/// The weights of a part, which may share their file with other parts.
Result<io::Checkpoint> open_part(const PartLocation& at, const std::string& variant,
                                 std::span<const std::string_view> prefixes) {
  Result<io::Checkpoint> weights = io::Checkpoint::open(at.weights, variant);
  if (weights.ok()) weights->keep_part(prefixes);
  return weights;
}

}  // namespace

Result<ModelFolder> ModelFolder::open(const fs::path& root, const ModelChoice& choice) {
  std::error_code failed;
  if (!fs::is_directory(root, failed)) {
    return io_error(fmt::format(
        "[model] {}: expected a model folder in diffusers' layout, got no such directory",
        root.string()));
  }
  if (fs::is_directory(root / "low_noise_model", failed)) {
    return unsupported(fmt::format(
        "[model] {}: expected a model of Wan2.1, got low_noise_model: Wan2.2's models are not "
        "supported",
        root.string()));
  }
  ModelFolder model;
  model.root = root;
  model.tokenizer_at = locate_tokenizer(root);
  VSA_TRY(read_index(model));
  VSA_TRY(locate_parts(choice, model));
  VSA_TRY(choose_variants(choice, model));
  VSA_TRY(read_vae(model));
  if (choice.vae_alone) return model;
  VSA_TRY(read_transformer(choice.parts, model));
  VSA_TRY(read_text_encoder(model));
  if (!model.vae) return model;
  VSA_TRY(vae::check_latent_channels(*model.vae, shown(model, model.vae_at.weights),
                                     model.transformer.in_channels,
                                     shown(model, model.transformer_at.weights)));
  return model;
}

Result<io::Checkpoint> ModelFolder::open_text_encoder() const {
  return open_part(text_encoder_at, text_encoder_variant, text::kPartPrefixes);
}

Result<io::Checkpoint> ModelFolder::open_transformer() const {
  Result<io::Checkpoint> weights =
      open_part(transformer_at, transformer_variant, dit::kPartPrefixes);
  if (weights.ok()) VSA_TRY(weights->in_file(dit::refuse_other_models(*weights)));
  return weights;
}

Result<io::Checkpoint> ModelFolder::open_vae() const {
  return open_part(vae_at, vae_variant, vae::kPartPrefixes);
}

Result<text::Tokenizer> ModelFolder::open_tokenizer() const {
  Result<text::Tokenizer> loaded = text::Tokenizer::load(tokenizer_at);
  if (!loaded.ok() || loaded->vocabulary_size() <= text_encoder.vocab_size) return loaded;
  return io_error(
      fmt::format("[model] {}: expected at most {} pieces (vocab_size of the text encoder), got {}",
                  shown(*this, tokenizer_at), text_encoder.vocab_size, loaded->vocabulary_size()));
}

}  // namespace vsa::runtime
