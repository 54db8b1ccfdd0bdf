// Which sampler a model uses and with which constants. Host-only.
#include "runtime/sampler/scheduler_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/json_fields.h"

namespace vsa::sampler {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kSchedulerKinds.size()> kNames{
    "unipc", "unipc-wan", "unipc-fastvideo", "euler", "euler-plain", "few-step"};

/// A field that may be there with one value only, as it would change the numbers.
struct Fixed {
  const char* key;
  json value;
  /// The value that the class takes if the field is absent.
  json absent;
};

/// A class of diffusers or FastVideo.
struct Class {
  const char* name;
  SchedulerKind kind;
  const char* shift;  ///< its field
  std::vector<Fixed> fixed;
  /// Fields without effect where the fixed ones have their values.
  std::vector<const char*> idle;
};

std::vector<Class> known_classes() {
  const std::vector<Fixed> multistep{{"solver_order", 2, 2},
                                     {"predict_x0", true, true},
                                     {"thresholding", false, false},
                                     {"solver_type", "bh2", "bh2"},
                                     {"lower_order_final", true, true},
                                     {"disable_corrector", json::array(), json::array()},
                                     {"solver_p", nullptr, nullptr},
                                     {"final_sigmas_type", "zero", "zero"},
                                     {"use_dynamic_shifting", false, false}};
  const std::vector<Fixed> other_levels{{"use_karras_sigmas", false, false},
                                        {"use_exponential_sigmas", false, false},
                                        {"use_beta_sigmas", false, false},
                                        {"shift_terminal", nullptr, nullptr}};
  const auto join = [](std::vector<Fixed> fields, const std::vector<Fixed>& more) {
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  };
  return {
      {.name = "UniPCMultistepScheduler",
       .kind = SchedulerKind::kUniPc,
       .shift = "flow_shift",
       .fixed = join(
           join(multistep, other_levels),
           {{"prediction_type", "flow_prediction", "epsilon"}, {"use_flow_sigmas", true, false}}),
       .idle = {"beta_start", "beta_end", "beta_schedule", "trained_betas",
                "dynamic_thresholding_ratio", "sample_max_value", "timestep_spacing",
                "steps_offset", "rescale_betas_zero_snr", "time_shift_type", "sigma_min",
                "sigma_max"}},
      {.name = "FlowUniPCMultistepScheduler",
       .kind = SchedulerKind::kUniPcFastVideo,
       .shift = "shift",
       .fixed = join(multistep, {{"prediction_type", "flow_prediction", "flow_prediction"}}),
       .idle = {"dynamic_thresholding_ratio", "sample_max_value", "timestep_spacing",
                "steps_offset"}},
      {.name = "FlowMatchEulerDiscreteScheduler",
       .kind = SchedulerKind::kEuler,
       .shift = "shift",
       .fixed = join(other_levels, {{"use_dynamic_shifting", false, false},
                                    {"invert_sigmas", false, false},
                                    {"stochastic_sampling", false, false}}),
       .idle = {"base_shift", "max_shift", "base_image_seq_len", "max_image_seq_len",
                "time_shift_type"}},
  };
}

/// Unsupported if a field has another value than the known one, or means another one by its
/// absence.
Status check_fixed(const json& object, std::string_view file, const Fixed& field) {
  const auto found = object.find(field.key);
  const json& value = found == object.end() ? field.absent : *found;
  if (value == field.value) return {};
  return unsupported(fmt::format("[config] {}: {}: expected {}, got {}", file, field.key,
                                 field.value.dump(), value.dump()));
}

/// An unknown field could change the numbers, so it is refused unless it is null or false.
Status check_unknown(const json& object, std::string_view file, const runtime::JsonFields& fields) {
  for (const std::string& key : fields.unread()) {
    const json& value = object.at(key);
    if (value.is_null() || value == false) continue;
    return unsupported(
        fmt::format("[config] {}: {}: expected a field that this runtime knows, got {}", file, key,
                    value.dump()));
  }
  return {};
}

}  // namespace

Result<SchedulerKind> scheduler_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return kSchedulerKinds[i];
  }
  return invalid_argument(fmt::format("[sampler] scheduler: expected one of {}, got {}",
                                      fmt::join(kNames, ", "), name));
}

std::string_view name(SchedulerKind kind) { return kNames[static_cast<size_t>(kind)]; }

SchedulerConfig fast_wan_config() {
  return {.kind = SchedulerKind::kFewStep, .shift = 8.0, .timesteps = {1000, 757, 522}};
}

Result<SchedulerConfig> parse_scheduler_config(const json& object, std::string_view file) {
  runtime::JsonFields fields(object, file);
  const std::string wanted = fields.text("_class_name", "");
  VSA_TRY(fields.status());
  for (const Class& known : known_classes()) {
    if (wanted != known.name) continue;
    for (const Fixed& field : known.fixed) {
      VSA_TRY(check_fixed(object, file, field));
      fields.present(field.key);
    }
    for (const char* key : known.idle) fields.present(key);
    const SchedulerConfig config{
        .kind = known.kind,
        .shift = fields.number(known.shift, 1.0, 0.0),
        .num_train_timesteps = fields.integer("num_train_timesteps", 1000, 2),
        .timesteps = {}};
    VSA_TRY(fields.status());
    VSA_TRY(check_unknown(object, file, fields));
    return config;
  }
  return unsupported(fmt::format(
      "[config] {}: _class_name: expected UniPCMultistepScheduler, FlowUniPCMultistepScheduler or "
      "FlowMatchEulerDiscreteScheduler, got {}",
      file, wanted.empty() ? "none" : wanted));
}

}  // namespace vsa::sampler
