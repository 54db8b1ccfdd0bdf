// --preview: a small picture of a video that is being sampled, in a file beside the video.
// Host-only.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>

#include "runtime/io/atomic_file.h"
#include "runtime/pipeline.h"

namespace vsa::cli {

/// The file. The first picture takes a name that is free, and the others replace it.
class PreviewFile {
 public:
  /// @param video  of the run; the picture is called as it is, with ".preview.png" behind
  explicit PreviewFile(const std::filesystem::path& video);

  /// Pictures of a run that lead to this file, which must outlive the run.
  runtime::PreviewOptions every(int64_t steps);

  /// Empty as long as there is none.
  const std::filesystem::path& path() const { return written_.path; }

 private:
  Status show(const video::Frames& frames);

  std::filesystem::path wanted_;
  io::WrittenFile written_;
};

}  // namespace vsa::cli
