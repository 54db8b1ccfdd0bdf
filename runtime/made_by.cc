// What a run writes into its videos about itself.
#include "runtime/made_by.h"

#include <nlohmann/json.hpp>

namespace vsa::runtime {

std::string made_by_json(const GenerateReport& report) {
  nlohmann::ordered_json json = {{"software", "vsa " + report.vsa_version},
                                 {"prompt", report.prompt},
                                 {"negative_prompt", report.negative_prompt},
                                 {"seed", report.seed},
                                 {"model", report.model},
                                 {"transformer_sha256", report.transformer_sha256},
                                 {"text_encoder_sha256", report.text_encoder_sha256},
                                 {"steps", report.steps}};
  if (report.steps_done < report.steps) json["steps_done"] = report.steps_done;
  json.update({{"frames", report.frames},
               {"width", report.width_px},
               {"height", report.height_px},
               {"fps", report.fps},
               {"guidance", report.guidance},
               {"shift", report.shift},
               {"scheduler", report.scheduler},
               {"attention", report.attention},
               {"order", report.order},
               {"tile", report.tile_shape}});
  if (report.attention == "vsa") {
    json.update({{"topk", report.topk},
                 {"dense_steps", report.dense_steps},
                 {"dense_layers", report.dense_layers}});
  }
  for (const LoraReport& lora : report.loras) {
    json["loras"].push_back({{"strength", lora.strength}, {"sha256", lora.sha256}});
  }
  json["backend"] = report.backend;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

video::Metadata video_metadata(const GenerateReport& report) {
  return {.title = report.prompt, .comment = made_by_json(report)};
}

}  // namespace vsa::runtime
