// Writes a video to a temporary file and copies it to stdout. Host-only.
#include "cli/generate/stdout_video.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "cli/common/failure.h"
#include "cli/common/option.h"
#include "cli/common/output.h"
#include "runtime/video/write_video.h"

namespace vsa::cli {

namespace fs = std::filesystem;

void StreamOptions::add_to(CLI::App& command) {
  add_choice(
      command,
      {.names = "--format", .kind = {}, .help = "with -o -: what goes to stdout; default: y4m"},
      {"y4m", "mp4", "gif"}, format);
}

void StreamOptions::warn_of_unused() const {
  if (!format.empty())
    warn("--format: has no effect without -o -, as the name of the file says it");
}

StdoutVideo::StdoutVideo(const StreamOptions& options, bool json) {
  if (json) {
    fail_usage("--json: expected another --output than -, as both would go to standard output",
               "--report FILE writes the same to a file");
  }
  // Read-only is what open_standard_streams puts where stdout is closed.
  if ((::fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    throw Failure(ExitCode::kInputOutput,
                  "--output: expected a pipe or a file on standard output for -, got a closed one");
  }
  if (::isatty(STDOUT_FILENO) == 1) {
    fail_usage("--output: expected a pipe or a file on standard output for -, got a terminal",
               "`vsa ... -o - | mpv -` plays the video");
  }
  const char* named = std::getenv("TMPDIR");
  const fs::path parent = named != nullptr && *named != '\0' ? named : "/tmp";
  std::string name = (parent / "vsa-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw Failure(ExitCode::kInputOutput,
                  fmt::format("--output -: cannot make a folder in {}: {}", parent.string(),
                              std::strerror(errno)),
                  "TMPDIR names a folder that can be written to");
  }
  folder_ = name;
  path_ = (folder_ / fmt::format("video.{}", options.format.empty() ? "y4m" : options.format));
}

StdoutVideo::~StdoutVideo() {
  std::error_code ignored;  // what stays behind does no harm
  if (!keep_video_) fs::remove(path_, ignored);
  fs::remove(folder_, ignored);  // a folder with latents in it stays
}

void StdoutVideo::send() {
  std::ifstream file(path_, std::ios::binary);
  std::string piece(1 << 20, '\0');
  try {
    while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) ||
           file.gcount() > 0) {
      print_result(std::string_view(piece).substr(0, static_cast<size_t>(file.gcount())));
    }
    if (!file.eof()) throw Failure(ExitCode::kInputOutput, path_ + ": cannot read");
  } catch (const Failure& e) {
    if (std::string_view(e.what()).empty()) throw;  // the reader closed the pipe, which is no error
    keep_video_ = true;
    throw Failure(e.code(), e.what(), fmt::format("the video is in {}", path_));
  }
}

void warn_of_unused_fps(const std::optional<double>& fps, const std::string& video) {
  if (!fps || video == kStdout) return;
  const auto kind = video::video_kind(video);
  if (kind.ok() && *kind == video::VideoKind::kPngFrames) {
    warn("--fps: has no effect on frames as .png files");
  }
}

}  // namespace vsa::cli
