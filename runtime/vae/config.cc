// The configuration of Wan2.1's VAE. Host-only.
#include "runtime/vae/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/json_fields.h"

namespace vsa::vae {
namespace {

using nlohmann::json;

// Far above any model, and small enough that products of extents stay in 64 bits.
constexpr int64_t kWidest = int64_t{1} << 20;
constexpr int64_t kMostLevels = 8;
constexpr int64_t kMostBlocks = 64;

/// Reads lists, which JsonFields has for positive integers of a known count alone.
class Lists {
 public:
  Lists(runtime::JsonFields& fields, const json& object, std::string_view file)
      : fields_(fields), object_(object), file_(file) {}

  /// Fills `list` with the elements of a field that is there and not null.
  /// @param is_element  whether an element is right
  template <class T, class IsElement>
  void read(const char* key, const char* expected, const IsElement& is_element,
            std::vector<T>& list) {
    if (!fields_.present(key)) return;
    const json& value = object_.at(key);
    if (!value.is_array() || !std::ranges::all_of(value, is_element)) {
      fields_.fail(io_error(fmt::format("[config] {}: {}: expected a list of {}, got {}", file_,
                                        key, expected, value.dump())));
      return;
    }
    list.clear();
    for (const json& element : value) list.push_back(element.get<T>());
  }

 private:
  runtime::JsonFields& fields_;
  const json& object_;
  std::string_view file_;
};

bool is_extent(const json& value) {
  return value.is_number_integer() && value >= 1 && value <= kWidest;
}
bool is_finite(const json& value) { return value.is_number() && std::isfinite(value.get<float>()); }
bool is_positive(const json& value) { return is_finite(value) && value.get<float>() > 0.0F; }

/// What sets Wan2.2's VAE (of TI2V-5B) apart from Wan2.1's.
void refuse_wan22(runtime::JsonFields& fields, const VaeConfig& config, std::string_view file) {
  const auto refuse = [&](const char* field, const auto& expected, const auto& got) {
    if (got == expected) return;
    fields.fail(unsupported(
        fmt::format("[config] {}: {}: expected {} as in Wan2.1's VAE, got {}: Wan2.2's VAE is not "
                    "supported",
                    file, field, expected, got)));
  };
  refuse("is_residual", false, fields.boolean("is_residual", false));
  refuse("patch_size", int64_t{1}, fields.integer("patch_size", 1));
  refuse("in_channels", int64_t{3}, fields.integer("in_channels", 3));
  refuse("out_channels", int64_t{3}, fields.integer("out_channels", 3));
  refuse("decoder_base_dim", config.base_dim, fields.integer("decoder_base_dim", config.base_dim));
}

void refuse_attention(runtime::JsonFields& fields, const json& object, std::string_view file) {
  if (!fields.present("attn_scales")) return;
  const json& scales = object.at("attn_scales");
  if (scales.is_array() && scales.empty()) return;
  fields.fail(unsupported(
      fmt::format("[config] {}: attn_scales: expected [], got {}: attention is computed in the "
                  "middle block alone",
                  file, scales.dump())));
}

Status check_lengths(const VaeConfig& config, std::string_view file) {
  const auto expect = [&](const char* field, int64_t expected, int64_t got) -> Status {
    if (got == expected) return {};
    return io_error(
        fmt::format("[config] {}: {}: expected {} elements, got {}", file, field, expected, got));
  };
  if (config.num_levels() < 1 || config.num_levels() > kMostLevels) {
    return io_error(fmt::format("[config] {}: dim_mult: expected 1 to {} elements, got {}", file,
                                kMostLevels, config.num_levels()));
  }
  VSA_TRY(expect("temperal_downsample", config.num_levels() - 1,
                 std::ssize(config.temporal_downsample)));
  VSA_TRY(expect("latents_mean", config.z_dim, std::ssize(config.latents_mean)));
  return expect("latents_std", config.z_dim, std::ssize(config.latents_std));
}

Status check_extents(const VaeConfig& config, std::string_view file) {
  const auto within = [&](const char* what, int64_t least, int64_t most, int64_t got) -> Status {
    if (got >= least && got <= most) return {};
    return io_error(
        fmt::format("[config] {}: {}: expected {} to {}, got {}", file, what, least, most, got));
  };
  VSA_TRY(within("num_res_blocks", 1, kMostBlocks, config.num_res_blocks));
  VSA_TRY(within("z_dim", 1, kWidest, config.z_dim));
  VSA_TRY(within("base_dim", 1, kWidest, config.base_dim));
  // Going up, channels are halved.
  const auto [least, most] = std::ranges::minmax(config.dim_mult);
  VSA_TRY(within("base_dim * dim_mult", 2, kWidest, config.base_dim * least));
  return within("base_dim * dim_mult", 2, kWidest, config.base_dim * most);
}

/// diffusers writes the factors down although the structure decides them.
Status check_factors(runtime::JsonFields& fields, const VaeConfig& config, std::string_view file) {
  for (const auto& [field, actual] :
       {std::pair{"scale_factor_spatial", config.spatial_factor()},
        std::pair{"scale_factor_temporal", config.temporal_factor()}}) {
    const int64_t said = fields.integer(field, actual);
    if (said != actual) {
      return io_error(fmt::format(
          "[config] {}: {}: expected {}, which dim_mult and temperal_downsample make, got {}", file,
          field, actual, said));
    }
  }
  return {};
}

}  // namespace

int64_t VaeConfig::temporal_factor() const {
  return int64_t{1} << std::ranges::count(temporal_downsample, true);
}

Result<VaeConfig> parse_vae_config(const nlohmann::json& json, std::string_view file,
                                   std::vector<std::string>& ignored) {
  runtime::JsonFields fields(json, file);
  if (!fields.status().ok()) return fields.status();
  if (const nlohmann::json kind = json.value("_class_name", nlohmann::json("AutoencoderKLWan"));
      kind != "AutoencoderKLWan") {
    return unsupported(fmt::format("[config] {}: _class_name: expected AutoencoderKLWan, got {}",
                                   file, kind.dump()));
  }
  VaeConfig config;
  config.base_dim = fields.integer("base_dim", config.base_dim);
  config.z_dim = fields.integer("z_dim", config.z_dim);
  config.num_res_blocks = fields.integer("num_res_blocks", config.num_res_blocks);
  fields.number("dropout", 0.0, -1.0);  // of training
  refuse_wan22(fields, config, file);
  refuse_attention(fields, json, file);
  Lists lists(fields, json, file);
  lists.read("dim_mult", "integers from 1 on", is_extent, config.dim_mult);
  const auto is_boolean = [](const nlohmann::json& value) { return value.is_boolean(); };
  lists.read("temperal_downsample", "true and false", is_boolean, config.temporal_downsample);
  lists.read("latents_mean", "numbers", is_finite, config.latents_mean);
  lists.read("latents_std", "numbers above 0", is_positive, config.latents_std);
  if (fields.status().ok()) fields.fail(check_lengths(config, file));
  if (fields.status().ok()) fields.fail(check_extents(config, file));
  if (fields.status().ok()) fields.fail(check_factors(fields, config, file));
  if (!fields.status().ok()) return fields.status();
  std::ranges::copy(fields.unread(), std::back_inserter(ignored));
  return config;
}

Status check_latent_channels(const VaeConfig& config, std::string_view vae, int64_t in_channels,
                             std::string_view transformer) {
  if (config.z_dim == in_channels) return {};
  return invalid_argument(fmt::format(
      "[model] vae: expected latents of {} channels, as many as {} has, got {}, whose latents have "
      "{}: it is another model's",
      in_channels, transformer, vae, config.z_dim));
}

}  // namespace vsa::vae
