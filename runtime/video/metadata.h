// What a video or picture says about itself, inside the file. Host-only.
#pragma once

#include <filesystem>
#include <string>

#include "vsa/status.h"

namespace vsa::video {

/// UTF-8 texts. mp4 holds them as the tags `title` and `comment`, png as iTXt chunks `Title` and
/// `Comment`, gif the comment alone as a comment extension. y4m has no place for text that its
/// readers agree on, and gets none.
struct Metadata {
  std::string title;
  std::string comment;

  bool empty() const { return title.empty() && comment.empty(); }
};

/// A PNG file's bytes with the texts added.
std::string png_with_metadata(const std::string& png, const Metadata& metadata);

/// A comment as it stands in a GIF file.
std::string gif_comment(const std::string& comment);

/// Whether a file is one that read_metadata reads: an mp4, gif or png file. The content decides,
/// not the name. A file that cannot be read is none.
bool is_file_of_metadata(const std::filesystem::path& path);

/// The texts in an mp4, gif or png file; empty where it has none.
/// @return IoError if the file cannot be read or is none of these
Result<Metadata> read_metadata(const std::filesystem::path& path);

}  // namespace vsa::video
