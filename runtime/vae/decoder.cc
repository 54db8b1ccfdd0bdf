// From latents to frames, chunk by chunk. Host-only.
#include "runtime/vae/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include "runtime/nn/buffer.h"
#include "runtime/nn/parallel.h"

namespace vsa::vae {
namespace {

Status check_args(const DecodeArgs& args, const VaeConfig& config) {
  const auto at_least_1 = [](const char* name, int64_t value) -> Status {
    if (value >= 1) return {};
    return invalid_argument(fmt::format("[decode] {}: expected at least 1, got {}", name, value));
  };
  VSA_TRY(at_least_1("frames", args.frames));
  VSA_TRY(at_least_1("height", args.height));
  VSA_TRY(at_least_1("width", args.width));
  VSA_TRY(at_least_1("chunk", args.split.chunk));
  if (args.split.stripes < 1 || args.split.stripes > args.height) {
    return invalid_argument(
        fmt::format("[decode] stripes: expected 1 to {} (rows of latents), got {}", args.height,
                    args.split.stripes));
  }
  const int64_t of_channel = args.frames * args.height * args.width;
  for (int64_t i = 0; i < config.z_dim * of_channel; ++i) {
    if (std::isfinite(args.latents[i])) continue;
    return invalid_argument(
        fmt::format("[decode] latents: expected finite values, got {} in channel {}, frame {}",
                    args.latents[i], i / of_channel, i % of_channel / (args.height * args.width)));
  }
  return {};
}

/// One decoding.
class Decoding {
 public:
  Decoding(const DecodeArgs& args, const VaeConfig& config, Runner& runner,
           const std::vector<Chunk>& chunks)
      : args_(args), config_(config), runner_(runner), chunks_(chunks) {}

  Status by_frames() {
    take_buffers(largest_chunk());
    for (const Chunk& chunk : chunks_) {
      const float* const z = denormalised(chunk);
      if (runner_.num_parts() == 1) {
        VSA_TRY(runner_.run(0, z, chunk.num_latents, rgb_.data()));
      } else {
        VSA_TRY(runner_.run(0, z, chunk.num_latents, whole_.data()));
      }
      for (int64_t part = 1; part < runner_.num_parts(); ++part) {
        VSA_TRY(runner_.run(part, whole_.data(), chunk.num_latents, rgb_.data()));
      }
      VSA_TRY(hand_out(chunk, rgb_.data()));
    }
    return {};
  }

  Status by_stripes() {
    const Chunk all{.num_frames = num_decoded_frames(config_, args_.frames),
                    .num_latents = args_.frames};
    take_buffers(all);
    const auto whole = [&](const Chunk& chunk) {
      return whole_.data() + chunk.first_latent * (whole_.size() / all.num_latents);
    };
    const auto rgb = [&](const Chunk& chunk) {
      return rgb_.data() + chunk.first_frame * frame_floats();
    };
    for (const Chunk& chunk : chunks_) {
      VSA_TRY(runner_.run(0, denormalised(chunk), chunk.num_latents, whole(chunk)));
    }
    runner_.finish(0);
    for (int64_t part = 1; part < runner_.num_parts(); ++part) {
      for (const Chunk& chunk : chunks_) {
        VSA_TRY(runner_.run(part, whole(chunk), chunk.num_latents, rgb(chunk)));
      }
      runner_.finish(part);
    }
    for (const Chunk& chunk : chunks_) VSA_TRY(hand_out(chunk, rgb(chunk)));
    return {};
  }

 private:
  int64_t pixels() const { return args_.height * args_.width; }
  int64_t edge() const { return config_.spatial_factor(); }
  int64_t frame_floats() const { return pixels() * edge() * edge() * 3; }
  Chunk largest_chunk() const { return std::ranges::max(chunks_, {}, &Chunk::num_frames); }

  /// Memory for what a chunk becomes.
  void take_buffers(const Chunk& chunk) {
    z_ = nn::Buffer(largest_chunk().num_latents * pixels() * config_.z_dim);
    if (runner_.num_parts() > 1) {
      whole_ = nn::Buffer(chunk.num_latents * pixels() * config_.dim(config_.num_levels() - 1));
    }
    rgb_ = nn::Buffer(chunk.num_frames * frame_floats());
  }

  /// The VAE's own latents, channels last.
  const float* denormalised(const Chunk& chunk) {
    for (int64_t c = 0; c < config_.z_dim; ++c) {
      const float mean = config_.latents_mean[static_cast<size_t>(c)];
      const float std = config_.latents_std[static_cast<size_t>(c)];
      const float* const channel =
          args_.latents + (c * args_.frames + chunk.first_latent) * pixels();
      for (int64_t i = 0; i < chunk.num_latents * pixels(); ++i) {
        z_.data()[i * config_.z_dim + c] = channel[i] * std + mean;
      }
    }
    return z_.data();
  }

  Status hand_out(const Chunk& chunk, float* rgb) {
    if (!args_.on_frames) return {};
    const std::span<float> values(rgb, static_cast<size_t>(chunk.num_frames * frame_floats()));
    const int64_t row = frame_floats() / (args_.height * edge());
    nn::parallel_rows(std::ssize(values) / row, [&](const nn::RowBlock& rows) {
      for (float& v : values.subspan(static_cast<size_t>(rows.begin * row),
                                     static_cast<size_t>(rows.size() * row))) {
        v = std::clamp(v, -1.0F, 1.0F);
      }
    });
    return args_.on_frames({.first = chunk.first_frame,
                            .num_frames = chunk.num_frames,
                            .height = args_.height * edge(),
                            .width = args_.width * edge(),
                            .rgb = values});
  }

  const DecodeArgs& args_;
  const VaeConfig& config_;
  Runner& runner_;
  const std::vector<Chunk>& chunks_;
  nn::Buffer z_;      // [latents, height, width, z_dim]
  nn::Buffer whole_;  // what the stripes read; empty if there are none
  nn::Buffer rgb_;
};

Status decode_chunks(const DecodeArgs& args, Model& model) {
  const VaeConfig& config = model.config();
  const std::vector<Chunk> chunks = all_chunks(args.frames, args.split, config.temporal_factor());
  Result<Runner> runner = Runner::make(
      "decode", model,
      {.chunks = chunks, .height = args.height, .width = args.width, .stripes = args.split.stripes},
      args.control);
  VSA_TRY(runner.status());
  Decoding decoding(args, config, *runner, chunks);
  const bool by_stripes = args.split.order == Order::kStripes && runner->num_parts() > 1;
  return by_stripes ? decoding.by_stripes() : decoding.by_frames();
}

}  // namespace

int64_t num_decoded_frames(const VaeConfig& config, int64_t latent_frames) {
  return 1 + (latent_frames - 1) * config.temporal_factor();
}

Status decode(const DecodeArgs& args, Model& model) {
  VSA_TRY(check_args(args, model.config()));
  try {
    return decode_chunks(args, model);
  } catch (const std::bad_alloc&) {
    return out_of_memory("[decode] not enough memory");
  }
}

}  // namespace vsa::vae
