// Encoding frames through FFmpeg's libraries into one file; internal to runtime/video. Host-only.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/video/frames.h"
#include "runtime/video/write_video.h"
#include "vsa/status.h"

namespace vsa::video {

/// How one kind of file is made, in the names of FFmpeg's libraries.
struct EncodeRecipe {
  const char* muxer;
  const char* encoder;
  const char* filters;           ///< from RGB frames to what the encoder takes
  bool needs_even_size = false;  ///< an odd edge is repeated once
  std::vector<std::pair<const char*, const char*>> encoder_options;
  std::vector<std::pair<const char*, std::string>> tags = {};  ///< texts of the container
  std::string gif_comment = {};  ///< a comment extension, which the muxer of gif cannot write
};

/// Writes the file, whole or not at all.
/// @param options  all but the metadata, which the recipe holds
/// @return Unsupported if the libraries were built without that encoder; IoError; Cancelled;
///         OutOfMemory
Status encode(const std::filesystem::path& path, const Frames& frames, const WriteOptions& options,
              const EncodeRecipe& recipe);

}  // namespace vsa::video
