// The latents file: a video between sampling and decoding. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/io/atomic_file.h"
#include "runtime/nn/buffer.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// What latents are: RGB in [-1, 1], or what Wan2.1's VAE decodes.
inline constexpr const char* kPixelSpace = "pixel";
inline constexpr const char* kWanSpace = "wan-vae";

/// A tensor that the sampler of an interrupted run needs to continue (sampler::Sampler::state).
struct LatentsState {
  std::string name;
  nn::Buffer values;  ///< as many as of the latents
};

/// A sampled video and what is needed to finish or to repeat the run.
struct Latents {
  nn::Buffer values;           ///< [channels, frames, height, width]
  std::vector<int64_t> shape;  ///< the four extents
  std::string space = kPixelSpace;
  std::string model;               ///< folder, as given; empty if that is not UTF-8
  std::string vae{};               ///< if it was elsewhere, of PartPaths; likewise
  std::string variant{};           ///< of ModelChoice
  std::string transformer_sha256;  ///< of the weights, all files together
  std::string prompt, negative_prompt;
  int64_t seed = 0;
  int64_t steps = 0, steps_done = 0;  ///< fewer done: the run was interrupted
  double guidance = 0.0, shift = 0.0, fps = 0.0;
  std::string scheduler = "euler-plain";  ///< sampler::name; files of old versions lack it
  std::string attention;                  ///< "vsa" or "dense"
  int64_t topk = 0;
  std::string made_by;  ///< made_by_json of the run; empty if another program wrote the file
  std::vector<LatentsState> state{};  ///< of a run that was interrupted
};

/// How save_latents uses the name it is given.
enum class LatentsName {
  kExact,  ///< a file of that name is replaced
  kFree,  ///< a file of that name stays, and another name is found: AtomicFile::commit_to_free_name
};

/// Writes a safetensors file with the f32 tensor `latents`, the state as `sampler.*` and the rest
/// as metadata `vsa.*`; whole or not at all.
/// @return the file; with kExact its path alone, as it is not removed again | IoError
Result<io::WrittenFile> save_latents(const std::filesystem::path& path, const Latents& latents,
                                     LatentsName name = LatentsName::kExact);

/// @return IoError if the file is missing, malformed, lacks a field or holds a non-finite value
Result<Latents> load_latents(const std::filesystem::path& path);

}  // namespace vsa::runtime
