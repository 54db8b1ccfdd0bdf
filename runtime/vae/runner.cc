// Runs the parts of a network over the chunks of a video, layer by layer. Host-only.
#include "runtime/vae/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vsa::vae {
namespace {

/// Frames of the network's input in a chunk: pixels going in, or latents.
int64_t input_frames(const Network& network, const Chunk& chunk) {
  return network.whole_begin == 0 ? chunk.num_latents : chunk.num_frames;
}

}  // namespace

std::vector<Chunk> all_chunks(int64_t latents, Split split, int64_t temporal_factor) {
  std::vector<Chunk> chunks;
  for (int64_t first = 0; first < latents; first += chunks.back().num_latents) {
    chunks.push_back(chunk_at(first, latents, split, temporal_factor));
  }
  return chunks;
}

Result<Runner> Runner::make(std::string_view operation, Model& model, const Video& video,
                            RunControl control) {
  Runner runner;
  runner.operation_ = operation;
  runner.network_ = &model.network();
  runner.enqueues_ = model.enqueues();
  runner.parts_ = cut_into_parts(model.network(), video.height, video.width, video.stripes);
  runner.chunks_done_.resize(runner.parts_.size());
  runner.control_ = std::move(control);
  for (const Part& part : runner.parts_) {
    runner.all_layers_ += part.num_layers() * std::ssize(video.chunks);
  }
  int64_t most_frames = 0;
  for (size_t i = 1; i < video.chunks.size(); ++i) {
    most_frames = std::max(most_frames, input_frames(model.network(), video.chunks[i]));
  }
  Result<std::unique_ptr<Steps>> steps = model.make_steps(runner.parts_, most_frames);
  VSA_TRY(steps.status());
  runner.steps_ = std::move(*steps);
  return runner;
}

Status Runner::run(int64_t part, const float* frames, int64_t num_frames, float* out) {
  const Part& layers = parts_[static_cast<size_t>(part)];
  int64_t& chunks_done = chunks_done_[static_cast<size_t>(part)];
  VSA_TRY(steps_->begin(part, frames, num_frames));
  for (int64_t i = 0; i < layers.num_layers(); ++i) {
    const int64_t layer = layers.first_layer + i;
    if (control_.cancel != nullptr && *control_.cancel) {
      return Status(StatusCode::kCancelled, fmt::format("[{}] cancelled before layer {} of {}",
                                                        operation_, layers_done_ + 1, all_layers_));
    }
    VSA_TRY(steps_->run(layer));
    if (!enqueues_) VSA_TRY(check_finite(layer, chunks_done));
    ++layers_done_;
    if (control_.on_layer) control_.on_layer(layers_done_, all_layers_);
  }
  ++chunks_done;
  VSA_TRY(steps_->end(out));
  const int64_t last = layers.first_layer + layers.num_layers() - 1;
  return enqueues_ ? check_finite(last, chunks_done - 1) : Status();
}

Status Runner::check_finite(int64_t layer, int64_t chunk) {
  const Result<bool> finite = steps_->finite();
  VSA_TRY(finite.status());
  if (*finite) return {};
  return {StatusCode::kInternal,
          fmt::format("[{}] {}{}: expected finite values, got NaN or infinity in chunk {}",
                      operation_, enqueues_ ? "up to " : "", network_->layer(layer).name, chunk)};
}

}  // namespace vsa::vae
