// scheduler_config.json: what Wan2.1's folders have is read, all else is refused by its name.
#include "runtime/sampler/scheduler_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace vsa::sampler {
namespace {

using nlohmann::json;

/// As diffusers' converter of Wan2.1 makes it, with the defaults that are saved beside it.
json wan() {
  return json::parse(
      R"({"_class_name": "UniPCMultistepScheduler", "_diffusers_version": "0.33.0.dev0",
    "beta_end": 0.02, "beta_schedule": "linear", "beta_start": 0.0001, "disable_corrector": [],
    "dynamic_thresholding_ratio": 0.995, "final_sigmas_type": "zero", "flow_shift": 3.0,
    "lower_order_final": true, "num_train_timesteps": 1000, "predict_x0": true,
    "prediction_type": "flow_prediction", "rescale_betas_zero_snr": false, "sample_max_value": 1.0,
    "solver_order": 2, "solver_p": null, "solver_type": "bh2", "steps_offset": 0,
    "thresholding": false, "timestep_spacing": "linspace", "trained_betas": null,
    "use_beta_sigmas": false, "use_exponential_sigmas": false, "use_flow_sigmas": true,
    "use_karras_sigmas": false})");
}

json euler() {
  return json::parse(R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 8.0})");
}

std::string refused(const json& config) {
  const auto parsed = parse_scheduler_config(config, "scheduler_config.json");
  return parsed.ok() ? "nothing" : parsed.status().message();
}

TEST(SchedulerConfig, WansFolderIsUniPc) {
  const SchedulerConfig config = parse_scheduler_config(wan(), "f").value();
  EXPECT_EQ(config.kind, SchedulerKind::kUniPc);
  EXPECT_EQ(config.shift, 3.0);
  EXPECT_EQ(config.num_train_timesteps, 1000);
}

TEST(SchedulerConfig, OtherKnownClasses) {
  const SchedulerConfig plain = parse_scheduler_config(euler(), "f").value();
  EXPECT_EQ(plain.kind, SchedulerKind::kEuler);
  EXPECT_EQ(plain.shift, 8.0);
  const json flow{{"_class_name", "FlowUniPCMultistepScheduler"}, {"shift", 5}};
  EXPECT_EQ(parse_scheduler_config(flow, "f").value().kind, SchedulerKind::kUniPcFastVideo);
  EXPECT_EQ(parse_scheduler_config(flow, "f").value().shift, 5.0);
}

TEST(SchedulerConfig, AnUnknownClassIsNamed) {
  json config = wan();
  config["_class_name"] = "DPMSolverMultistepScheduler";
  EXPECT_THAT(refused(config), testing::HasSubstr("got DPMSolverMultistepScheduler"));
  config.erase("_class_name");
  EXPECT_THAT(refused(config), testing::HasSubstr("_class_name: expected"));
}

TEST(SchedulerConfig, AnotherValueOfAFieldIsNamed) {
  const json other{{"solver_order", 3},
                   {"solver_type", "bh1"},
                   {"predict_x0", false},
                   {"thresholding", true},
                   {"lower_order_final", 0},
                   {"disable_corrector", {0}},
                   {"solver_p", "x"},
                   {"final_sigmas_type", "sigma_min"},
                   {"use_flow_sigmas", false},
                   {"prediction_type", "epsilon"},
                   {"use_karras_sigmas", true},
                   {"use_beta_sigmas", true},
                   {"use_exponential_sigmas", true},
                   {"use_dynamic_shifting", true},
                   {"shift_terminal", 0.1}};
  for (const auto& [key, value] : other.items()) {
    json config = wan();
    config[key] = value;
    EXPECT_THAT(refused(config),
                testing::HasSubstr("scheduler_config.json: " + key + ": expected"));
  }
  for (const char* key : {"invert_sigmas", "stochastic_sampling", "use_dynamic_shifting"}) {
    json config = euler();
    config[key] = true;
    EXPECT_THAT(refused(config), testing::HasSubstr(std::string(key) + ": expected false"));
  }
}

TEST(SchedulerConfig, AFieldWhoseDefaultIsAnotherFunctionMustBeThere) {
  // UniPCMultistepScheduler without these predicts noise on the levels of another process.
  for (const char* key : {"use_flow_sigmas", "prediction_type"}) {
    json config = wan();
    config.erase(key);
    EXPECT_THAT(refused(config), testing::HasSubstr(std::string(key) + ": expected"));
  }
  json config = wan();
  config.erase("solver_order");
  EXPECT_EQ(refused(config), "nothing");
}

TEST(SchedulerConfig, AnUnknownFieldIsNamedUnlessItSaysNothing) {
  json config = wan();
  config["eta"] = nullptr;
  config["use_new_sigmas"] = false;
  EXPECT_EQ(refused(config), "nothing");
  config["eta"] = 0.5;
  EXPECT_THAT(refused(config), testing::HasSubstr("eta: expected a field that this runtime knows"));
}

TEST(SchedulerConfig, NumbersAreChecked) {
  for (const json& bad : {json(0), json(-1), json("3"), json(true)}) {
    json config = wan();
    config["flow_shift"] = bad;
    EXPECT_THAT(refused(config), testing::HasSubstr("flow_shift: expected")) << bad;
    config = wan();
    config["num_train_timesteps"] = bad;
    EXPECT_THAT(refused(config), testing::HasSubstr("num_train_timesteps: expected")) << bad;
  }
  EXPECT_THAT(refused(json::array()), testing::HasSubstr("expected a JSON object"));
}

TEST(SchedulerName, BothWays) {
  for (const SchedulerKind kind : kSchedulerKinds) {
    EXPECT_EQ(scheduler_from_name(name(kind)).value(), kind);
  }
  EXPECT_THAT(scheduler_from_name("dpm++").status().message(),
              testing::HasSubstr("expected one of unipc, unipc-wan, unipc-fastvideo, euler, "
                                 "euler-plain, few-step, got dpm++"));
}

}  // namespace
}  // namespace vsa::sampler
