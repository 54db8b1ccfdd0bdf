// What a run did: routes, times, hashes, memory; as a struct and as JSON. Host-only.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/io/atomic_file.h"

namespace vsa::runtime {

/// One layer in one step, both guidance passes together.
struct LayerReport {
  std::string route;        ///< "vsa" or "dense": which attention ran
  double kept_share = 0.0;  ///< kv tiles kept / kv tiles, mean over heads and query tiles
  double qkv_ms = 0.0;      ///< norm, modulation, projections, q/k norm, RoPE
  double attention_ms = 0.0;
  double cross_ms = 0.0;  ///< output projection, residual, cross-attention
  double ffn_ms = 0.0;
};

struct StepReport {
  double sigma = 0.0;     ///< noise level at the start of the step, 1 to 0
  double timestep = 0.0;  ///< that the transformer got
  double ms = 0.0;
  std::vector<LayerReport> layers;
};

/// A model file that the run read.
struct FileReport {
  std::string path;  ///< relative to the model folder
  int64_t bytes = 0;
  std::string sha256;  ///< 64 hex digits
};

/// A LoRA that was merged into the transformer.
struct LoraReport {
  std::string path;
  double strength = 1.0;
  std::string sha256;  ///< 64 hex digits
};

/// How the tensors of a checkpoint were matched.
struct WeightsReport {
  std::string naming;  ///< whose tensor names the file uses
  std::string dtype;   ///< in the file: "f16"; "mixed" if there are several
  int64_t parameters = 0;
  int64_t loaded = 0;
  std::vector<std::string> unused;  ///< tensors in the file that the model does not have
  bool has_gates = false;           ///< transformer: to_gate_compress in every layer
};

struct GenerateReport {
  std::string vsa_version;
  std::string onednn_version;
  std::string backend;
  std::string backend_detail;  ///< instruction set that the backend runs on
  int num_threads = 0;

  std::string model;  ///< the name of its folder
  /// Of the files of weights of a part, in order, with commas between.
  std::string transformer_sha256, text_encoder_sha256;
  std::string prompt, negative_prompt;
  int64_t seed = 0;  ///< the one used
  int64_t steps = 0, steps_done = 0;
  int64_t frames = 0, height_px = 0, width_px = 0;
  double fps = 0.0;
  double guidance = 0.0;
  double shift = 0.0;
  std::string scheduler;  ///< its name on the command line

  std::string attention;              ///< as asked: "vsa" or "dense"
  std::vector<int64_t> grid_tokens;   ///< (F, H, W) in tokens
  std::string order;                  ///< in which tokens are cut into tiles: its name
  std::vector<int64_t> tile_shape;    ///< edges in tokens; along a curve only their product counts
  int64_t num_tiles = 0, topk = 0;    ///< topk of the layers that ran vsa
  int64_t dense_steps = 0;            ///< of the first steps, all layers ran dense
  std::vector<int64_t> dense_layers;  ///< these ran dense in every step
  double kept_share = 0.0;            ///< mean over all layers and steps
  std::vector<std::string> warnings;  ///< what the user should know; never a silent change

  WeightsReport text_encoder, transformer;
  WeightsReport vae;  ///< its decoder; nothing loaded for a model without a VAE
  std::vector<LoraReport> loras;
  int64_t changed_by_loras = 0;  ///< tensors of the transformer
  std::vector<FileReport> files;
  std::vector<std::string> ignored_config_fields;
  std::vector<StepReport> step_reports;

  double text_ms = 0.0, load_ms = 0.0, denoise_ms = 0.0, decode_ms = 0.0, total_ms = 0.0;
  int64_t peak_memory_bytes = 0;  ///< of the process, from getrusage
  int64_t peak_device_bytes = 0;  ///< that the transformer or the VAE took of a device; 0: none
  std::string latents_path;       ///< empty if none were saved
  io::WrittenFile latents_file;   ///< the same, for whoever removes it again; not in the JSON
};

/// The report as JSON; docs/reference/runtime.md describes the fields.
nlohmann::json to_json(const GenerateReport& report);

}  // namespace vsa::runtime
