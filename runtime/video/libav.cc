// Ownership and errors for FFmpeg's libraries.
#include "runtime/video/libav.h"

#include <fmt/format.h>

#include <array>
#include <mutex>

namespace vsa::video {
namespace {

thread_local LibavLog* active_log = nullptr;

}  // namespace

void LibavLog::on_message(void* source, int level, const char* format, va_list arguments) {
  if (active_log == nullptr || level > AV_LOG_ERROR) return;
  std::array<char, 512> line{};
  int print_prefix = 0;  // no "[libx264 @ 0x55...]": an address tells the reader nothing
  av_log_format_line2(source, level, format, arguments, line.data(), line.size(), &print_prefix);
  std::string_view message = line.data();
  while (message.ends_with('\n')) message.remove_suffix(1);
  if (!active_log->text_.empty()) active_log->text_ += "; ";
  active_log->text_ += message;
}

LibavLog::LibavLog() : outer_(std::exchange(active_log, this)) {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_callback(on_message); });
}

LibavLog::~LibavLog() { active_log = outer_; }

Status libav_error(std::string_view operation, const std::filesystem::path& path,
                   std::string_view action, int code, const LibavLog& log) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> reason{};
  av_strerror(code, reason.data(), reason.size());
  return io_error(fmt::format("[{}] {}: expected to {}, got: {}{}{}", operation, path.string(),
                              action, reason.data(), log.text().empty() ? "" : "; ", log.text()));
}

int FilterGraph::build(const AVFrame& format, AVRational frame_rate, const std::string& filters) {
  graph.reset(avfilter_graph_alloc());
  if (graph == nullptr) return AVERROR(ENOMEM);
  graph->nb_threads = 1;  // the frames are small, and logs of other threads would be lost
  const AVRational time_base = av_inv_q(frame_rate);
  const std::string arguments = fmt::format(
      "width={}:height={}:pix_fmt={}:time_base={}/{}:frame_rate={}/{}", format.width, format.height,
      format.format, time_base.num, time_base.den, frame_rate.num, frame_rate.den);
  int code = avfilter_graph_create_filter(&source, avfilter_get_by_name("buffer"), "in",
                                          arguments.c_str(), nullptr, graph.get());
  if (code < 0) return code;
  code = avfilter_graph_create_filter(&sink, avfilter_get_by_name("buffersink"), "out", nullptr,
                                      nullptr, graph.get());
  if (code < 0) return code;

  struct Ends {
    AVFilterInOut* in = avfilter_inout_alloc();
    AVFilterInOut* out = avfilter_inout_alloc();
    ~Ends() {
      avfilter_inout_free(&in);
      avfilter_inout_free(&out);
    }
  } ends;
  if (ends.in == nullptr || ends.out == nullptr) return AVERROR(ENOMEM);
  // Named from the chain's side: its open input is our source's output.
  *ends.out = {av_strdup("in"), source, 0, nullptr};
  *ends.in = {av_strdup("out"), sink, 0, nullptr};
  code = avfilter_graph_parse_ptr(graph.get(), filters.c_str(), &ends.in, &ends.out, nullptr);
  return code < 0 ? code : avfilter_graph_config(graph.get(), nullptr);
}

}  // namespace vsa::video
