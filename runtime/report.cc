// What a run did, as JSON. Host-only.
#include "runtime/report.h"

#include <nlohmann/json.hpp>

namespace vsa::runtime {
namespace {

using nlohmann::json;

json to_json(const LayerReport& layer) {
  return {{"route", layer.route},       {"kept_share", layer.kept_share},
          {"qkv_ms", layer.qkv_ms},     {"attention_ms", layer.attention_ms},
          {"cross_ms", layer.cross_ms}, {"ffn_ms", layer.ffn_ms}};
}

json to_json(const StepReport& step) {
  json layers = json::array();
  for (const LayerReport& layer : step.layers) layers.push_back(to_json(layer));
  return {{"sigma", step.sigma}, {"timestep", step.timestep}, {"ms", step.ms}, {"layers", layers}};
}

json to_json(const std::vector<LoraReport>& loras) {
  json list = json::array();
  for (const LoraReport& lora : loras) {
    list.push_back({{"path", lora.path}, {"strength", lora.strength}, {"sha256", lora.sha256}});
  }
  return list;
}

json to_json(const WeightsReport& weights) {
  return {{"naming", weights.naming},         {"dtype", weights.dtype},
          {"parameters", weights.parameters}, {"loaded", weights.loaded},
          {"unused", weights.unused},         {"has_gates", weights.has_gates}};
}

}  // namespace

json to_json(const GenerateReport& report) {
  json files = json::array();
  for (const FileReport& file : report.files) {
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  json steps = json::array();
  for (const StepReport& step : report.step_reports) steps.push_back(to_json(step));
  return {
      {"versions", {{"vsa", report.vsa_version}, {"onednn", report.onednn_version}}},
      {"backend",
       {{"name", report.backend},
        {"detail", report.backend_detail},
        {"num_threads", report.num_threads}}},
      {"model", report.model},
      {"transformer_sha256", report.transformer_sha256},
      {"text_encoder_sha256", report.text_encoder_sha256},
      {"prompt", report.prompt},
      {"negative_prompt", report.negative_prompt},
      {"seed", report.seed},
      {"steps", report.steps},
      {"steps_done", report.steps_done},
      {"frames", report.frames},
      {"height_px", report.height_px},
      {"width_px", report.width_px},
      {"fps", report.fps},
      {"guidance", report.guidance},
      {"shift", report.shift},
      {"scheduler", report.scheduler},
      {"attention",
       {{"asked", report.attention},
        {"grid_tokens", report.grid_tokens},
        {"order", report.order},
        {"tile_shape", report.tile_shape},
        {"num_tiles", report.num_tiles},
        {"topk", report.topk},
        {"dense_steps", report.dense_steps},
        {"dense_layers", report.dense_layers},
        {"kept_share", report.kept_share}}},
      {"warnings", report.warnings},
      {"weights",
       {{"text_encoder", to_json(report.text_encoder)},
        {"transformer", to_json(report.transformer)},
        {"vae", report.vae.loaded == 0 ? json() : to_json(report.vae)}}},
      {"loras", {{"files", to_json(report.loras)}, {"changed_tensors", report.changed_by_loras}}},
      {"files", files},
      {"ignored_config_fields", report.ignored_config_fields},
      {"times_ms",
       {{"text", report.text_ms},
        {"load", report.load_ms},
        {"denoise", report.denoise_ms},
        {"decode", report.decode_ms},
        {"total", report.total_ms}}},
      {"peak_memory_bytes", report.peak_memory_bytes},
      {"peak_device_bytes", report.peak_device_bytes},
      {"latents_path", report.latents_path},
      {"step_reports", steps},
  };
}

}  // namespace vsa::runtime
