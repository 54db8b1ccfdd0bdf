// Which sampler a model uses and with which constants: names and scheduler_config.json. Host-only.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa::sampler {

/// The samplers. schedule.h has the noise levels of each.
enum class SchedulerKind {
  kUniPc,           ///< UniPCMultistepScheduler of diffusers
  kUniPcWan,        ///< FlowUniPCMultistepScheduler as Wan's own generate.py calls it
  kUniPcFastVideo,  ///< the same class as FastVideo calls it
  kEuler,           ///< FlowMatchEulerDiscreteScheduler of diffusers
  kEulerPlain,      ///< Euler on levels that are shifted once and end at sigma 0
  kFewStep,         ///< predicts x0 and adds fresh noise, at listed timesteps (FastWan)
};

inline constexpr std::array kSchedulerKinds{
    SchedulerKind::kUniPc, SchedulerKind::kUniPcWan,   SchedulerKind::kUniPcFastVideo,
    SchedulerKind::kEuler, SchedulerKind::kEulerPlain, SchedulerKind::kFewStep};

/// "unipc", "unipc-wan", "unipc-fastvideo", "euler", "euler-plain" or "few-step".
/// @return InvalidArgument listing them for any other name
Result<SchedulerKind> scheduler_from_name(std::string_view name);
std::string_view name(SchedulerKind kind);

/// A sampler and its constants.
struct SchedulerConfig {
  SchedulerKind kind = SchedulerKind::kUniPc;
  double shift = 1.0;                  ///< above 1: more steps on strong noise
  int64_t num_train_timesteps = 1000;  ///< the timestep of sigma 1
  std::vector<int64_t> timesteps{};    ///< kFewStep: those of its steps, falling; else empty
};

/// That of FastWan2.1: timesteps 1000, 757 and 522 of the levels with shift 8.
SchedulerConfig fast_wan_config();

/// Reads scheduler_config.json. The classes UniPCMultistepScheduler, FlowUniPCMultistepScheduler
/// (kUniPcFastVideo: only FastVideo writes it into a folder) and FlowMatchEulerDiscreteScheduler
/// are known, and of their fields the values that Wan2.1's folders have: any other would mean other
/// numbers.
/// @param file  how messages name it
/// @return Unsupported (a class, a field, or a value of a field that this runtime does not know, by
///         its name) | IoError (a wrong type or range)
Result<SchedulerConfig> parse_scheduler_config(const nlohmann::json& json, std::string_view file);

}  // namespace vsa::sampler
