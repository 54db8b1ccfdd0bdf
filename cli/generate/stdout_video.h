// `-o -`: a video on standard output, for a player or an encoder to read. Host-only.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <optional>
#include <string>

namespace vsa::cli {

/// The output path that means standard output.
inline constexpr const char* kStdout = "-";

/// --format.
struct StreamOptions {
  std::string format;  ///< empty: y4m

  void add_to(CLI::App& command);
  /// Warns of what has no effect without `-o -`.
  void warn_of_unused() const;
};

/// Makes the video in a folder of its own under $TMPDIR. So formats whose header is written last
/// work as well, and nothing is sent if the run fails.
class StdoutVideo {
 public:
  /// Throws Failure: kUsage if stdout is a terminal or is to get JSON, kInputOutput if stdout is
  /// closed, or there can be no folder.
  StdoutVideo(const StreamOptions& options, bool json);
  /// Removes the folder, but for latents that a failed run left in it.
  ~StdoutVideo();
  StdoutVideo(const StdoutVideo&) = delete;
  StdoutVideo& operator=(const StdoutVideo&) = delete;

  /// Where the video is to be written.
  std::string path() const { return path_; }
  /// Copies it to stdout. If that fails the video stays, and the hint says where.
  void send();

 private:
  std::filesystem::path folder_;
  std::string path_;
  bool keep_video_ = false;
};

/// Warns that a frame rate has no effect if every frame is a file of its own.
void warn_of_unused_fps(const std::optional<double>& fps, const std::string& video);

}  // namespace vsa::cli
