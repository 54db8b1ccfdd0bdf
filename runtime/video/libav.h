// Ownership and errors for FFmpeg's libraries; internal to runtime/video. Host-only.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
}

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "vsa/status.h"

namespace vsa::video {

struct LibavDelete {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(AVFilterGraph* graph) const { avfilter_graph_free(&graph); }
};
using FramePtr = std::unique_ptr<AVFrame, LibavDelete>;
using PacketPtr = std::unique_ptr<AVPacket, LibavDelete>;
using CodecPtr = std::unique_ptr<AVCodecContext, LibavDelete>;
using GraphPtr = std::unique_ptr<AVFilterGraph, LibavDelete>;

/// Collects what the libraries log on this thread, errors only, while it lives. They print nothing
/// from the first one on; what they log on threads of their own is dropped.
class LibavLog {
 public:
  LibavLog();
  ~LibavLog();
  LibavLog(const LibavLog&) = delete;
  LibavLog& operator=(const LibavLog&) = delete;

  /// One line, empty if nothing was logged.
  const std::string& text() const { return text_; }

 private:
  static void on_message(void* source, int level, const char* format, va_list arguments);
  std::string text_;
  LibavLog* outer_;
};

/// An IoError of operation and path out of a library's return code and its log.
Status libav_error(std::string_view operation, const std::filesystem::path& path,
                   std::string_view action, int code, const LibavLog& log);

/// One video stream through a chain of filters, described in ffmpeg's filter language.
struct FilterGraph {
  GraphPtr graph;
  AVFilterContext* source = nullptr;
  AVFilterContext* sink = nullptr;

  /// @param format  what the frames to be pushed look like: width, height, format, colours
  /// @return a negative code of libav on failure
  int build(const AVFrame& format, AVRational frame_rate, const std::string& filters);
};

}  // namespace vsa::video
