#include "tests/cli/run_vsa.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace vsa::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// One end to read from, one that the child writes to.
struct Channel {
  int read = -1, write = -1;
};

Channel open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  return {.read = ends[0], .write = ends[1]};
}

Channel open_terminal() {
  Channel channel;
  if (::openpty(&channel.read, &channel.write, nullptr, nullptr, nullptr) != 0) {
    throw std::runtime_error("openpty");
  }
  ::fcntl(channel.read, F_SETFD, FD_CLOEXEC);
  ::fcntl(channel.write, F_SETFD, FD_CLOEXEC);
  return channel;
}

Channel open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw std::runtime_error("cannot open " + path);
  return {.read = -1, .write = fd};
}

/// What the child does between fork and exec; only calls that are safe there.
[[noreturn]] void become_vsa(const std::vector<char*>& argv, const RunOptions& options, int out,
                             int err) {
  options.closed_stdout_fd ? ::close(STDOUT_FILENO) : ::dup2(out, STDOUT_FILENO);
  options.closed_stderr_fd ? ::close(STDERR_FILENO) : ::dup2(err, STDERR_FILENO);
  if (options.controlling_terminal) {
    ::setsid();
    ::ioctl(err, TIOCSCTTY, 0);
  }
  for (const int signal : options.ignored_signals) ::signal(signal, SIG_IGN);
  if (options.terminal_stderr) {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
    ::unsetenv("COLUMNS");
  }
  for (const std::string& variable : options.environment) {
    ::putenv(const_cast<char*>(variable.c_str()));
  }
  if (!options.directory.empty() && ::chdir(options.directory.c_str()) != 0) ::_exit(126);
  if (options.max_file_bytes) {
    ::signal(SIGXFSZ, SIG_IGN);  // write() fails instead, as on a full disk
    const auto bytes = static_cast<rlim_t>(*options.max_file_bytes);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

/// Appends what can be read now; false at the end of the stream.
bool drain(int fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count <= 0) return false;  // a terminal whose other end is closed gives EIO
  text.append(buffer.data(), static_cast<size_t>(count));
  return true;
}

}  // namespace

RunResult run_vsa(const std::vector<std::string>& args, const RunOptions& options) {
  // A bundle for another machine says where its vsa lies.
  const char* elsewhere = std::getenv("VSA_TEST_CLI");
  std::vector<std::string> words = {elsewhere != nullptr ? elsewhere : VSA_CLI_PATH};
  if (options.shell) {
    ::setenv("VSA", words[0].c_str(), 1);
    words[0] = "/bin/bash";
  }
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  Channel out = options.stdout_path.empty() ? open_pipe() : open_file(options.stdout_path);
  Channel err = options.terminal_stderr       ? open_terminal()
                : options.stderr_path.empty() ? open_pipe()
                                              : open_file(options.stderr_path);
  const auto go_away = [](Channel& channel) {
    ::close(channel.read);
    channel.read = -1;
  };
  if (options.closed_stdout) go_away(out);
  if (options.closed_stderr) go_away(err);
  if (options.terminal_columns > 0) {
    winsize size{};
    size.ws_col = options.terminal_columns;
    size.ws_row = 24;
    ::ioctl(err.write, TIOCSWINSZ, &size);
  }
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) become_vsa(argv, options, out.write, err.write);
  ::close(out.write);
  ::close(err.write);

  RunResult result;
  const auto deadline = Clock::now() + std::chrono::minutes(2);
  size_t sent = 0;  // signals
  auto next_signal = Clock::now();
  std::array<pollfd, 2> streams{{{out.read, POLLIN, 0}, {err.read, POLLIN, 0}}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    ::poll(streams.data(), streams.size(), 5);
    if (streams[0].revents != 0 && !drain(out.read, result.out)) streams[0].fd = -1;
    if (streams[1].revents != 0 && !drain(err.read, result.err)) streams[1].fd = -1;
    streams[0].revents = streams[1].revents = 0;
    const bool hangs_up =
        options.interrupt_when ? options.interrupt_when(result.err) : !result.err.empty();
    if (options.hang_up && streams[1].fd >= 0 && hangs_up) {
      go_away(err);
      streams[1].fd = -1;
    }
    if (options.interrupt_when && sent < options.signals.size() && Clock::now() >= next_signal &&
        (sent > 0 || options.interrupt_when(result.err))) {
      ::kill(child, options.signals[sent++]);
      next_signal = Clock::now() + std::chrono::milliseconds(20);
    }
    if (Clock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      throw std::runtime_error("vsa did not end within two minutes");
    }
  }
  if (out.read >= 0) ::close(out.read);
  if (err.read >= 0) ::close(err.read);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (fs::temp_directory_path() / "vsa-cli-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryDirectory::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(path_).string());
  }
  std::ranges::sort(names);
  return names;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace vsa::test
