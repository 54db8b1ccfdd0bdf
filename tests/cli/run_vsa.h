// Runs the vsa binary as a user would, and captures what it prints.
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace vsa::test {

struct RunOptions {
  bool shell = false;  ///< the arguments are those of bash, in which $VSA is the program
  std::filesystem::path directory;  ///< to run in; empty: this process's own
  std::string stdout_path;          ///< write stdout there; empty: capture it
  bool closed_stdout = false;       ///< stdout is a pipe that nobody reads
  bool closed_stdout_fd = false;    ///< stdout is not open at all: `>&-`
  std::string stderr_path;          ///< write stderr there; empty: capture it
  bool closed_stderr = false;       ///< stderr is a pipe that nobody reads
  bool closed_stderr_fd = false;    ///< stderr is not open at all: `2>&-`
  bool terminal_stderr = false;     ///< stderr is a terminal
  /// The terminal goes away once something is drawn on it, or once interrupt_when holds.
  bool hang_up = false;
  /// The terminal is that of the session, so that the kernel sends SIGHUP when it goes away.
  bool controlling_terminal = false;
  unsigned short terminal_columns = 0;  ///< of the terminal; 0: it does not say
  /// Polled while the process runs, with its stderr so far; once true, the signals are sent, 20 ms
  /// apart.
  std::function<bool(const std::string& err)> interrupt_when;
  std::vector<int> signals = {SIGINT};
  std::vector<int> ignored_signals;      ///< as nohup does
  std::vector<std::string> environment;  ///< NAME=VALUE, besides this process's own
  /// No file may grow beyond this: a full disk.
  std::optional<int64_t> max_file_bytes;
};

struct RunResult {
  int exit_code = -1;  ///< 128 + the signal if it was killed by one
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Throws std::runtime_error if the process cannot be started or does not end within two minutes.
RunResult run_vsa(const std::vector<std::string>& args, const RunOptions& options = {});

/// A fresh directory, removed with everything in it at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Names of all files below, sorted.
  std::vector<std::string> files() const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace vsa::test
