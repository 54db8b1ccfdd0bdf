// Reading a video back into frames, by FFmpeg's libraries.
#include "runtime/video/read_video.h"

#include <algorithm>

#include "runtime/video/libav.h"

namespace vsa::video {
namespace {

struct CloseInput {
  void operator()(AVFormatContext* input) const { avformat_close_input(&input); }
};

class Decoding {
 public:
  int run(const std::filesystem::path& path) {
    action = "open";
    AVFormatContext* input = nullptr;
    int code = avformat_open_input(&input, path.c_str(), nullptr, nullptr);
    if (code < 0) return code;
    input_.reset(input);
    action = "find a video stream";
    code = avformat_find_stream_info(input, nullptr);
    if (code < 0) return code;
    const AVCodec* decoder = nullptr;
    const int stream_idx = av_find_best_stream(input, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    if (stream_idx < 0) return stream_idx;
    stream_ = input->streams[stream_idx];
    video.fps = av_q2d(stream_->avg_frame_rate);

    action = "decode";
    codec_.reset(avcodec_alloc_context3(decoder));
    packet_.reset(av_packet_alloc());
    frame_.reset(av_frame_alloc());
    if (codec_ == nullptr || packet_ == nullptr || frame_ == nullptr) return AVERROR(ENOMEM);
    code = avcodec_parameters_to_context(codec_.get(), stream_->codecpar);
    if (code < 0) return code;
    codec_->thread_count = 1;
    code = avcodec_open2(codec_.get(), decoder, nullptr);
    return code < 0 ? code : decode_all();
  }

  const char* action = "";
  Video video;

 private:
  int decode_all() {
    for (;;) {
      int code = av_read_frame(input_.get(), packet_.get());
      if (code == AVERROR_EOF) return decode_one(nullptr);
      if (code < 0) return code;
      if (packet_->stream_index == stream_->index) code = decode_one(packet_.get());
      av_packet_unref(packet_.get());
      if (code < 0) return code;
    }
  }

  int decode_one(const AVPacket* packet) {
    int code = avcodec_send_packet(codec_.get(), packet);
    while (code >= 0) {
      code = avcodec_receive_frame(codec_.get(), frame_.get());
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return 0;
      if (code >= 0) code = append();
    }
    return code;
  }

  /// One frame in, one out: the filter only converts.
  int append() {
    int code = 0;
    if (graph_.source == nullptr) {
      video.frames.height = frame_->height;
      video.frames.width = frame_->width;
      code = graph_.build(*frame_, {1, 1},
                          "scale=flags=neighbor+accurate_rnd+full_chroma_int+bitexact,"
                          "format=rgb24");
    } else if (frame_->height != video.frames.height || frame_->width != video.frames.width) {
      return AVERROR(EINVAL);
    }
    if (code >= 0) code = av_buffersrc_add_frame(graph_.source, frame_.get());
    if (code >= 0) code = av_buffersink_get_frame(graph_.sink, frame_.get());
    if (code < 0) return code;
    for (int y = 0; y < frame_->height; ++y) {
      const uint8_t* row = frame_->data[0] + int64_t{y} * frame_->linesize[0];
      video.frames.rgb.insert(video.frames.rgb.end(), row, row + int64_t{frame_->width} * 3);
    }
    ++video.frames.num_frames;
    av_frame_unref(frame_.get());
    return 0;
  }

  std::unique_ptr<AVFormatContext, CloseInput> input_;
  AVStream* stream_ = nullptr;  // owned by input_
  CodecPtr codec_;
  PacketPtr packet_;
  FramePtr frame_;
  FilterGraph graph_;
};

}  // namespace

Result<Video> read_video(const std::filesystem::path& path) {
  const LibavLog log;
  Decoding decoding;
  const int code = decoding.run(path);
  if (code == AVERROR(ENOMEM))
    return out_of_memory("[read_video] memory: expected enough, got none");
  if (code < 0) return libav_error("read_video", path, decoding.action, code, log);
  if (decoding.video.frames.num_frames == 0) {
    return libav_error("read_video", path, "find frames", AVERROR_INVALIDDATA, log);
  }
  return std::move(decoding.video);
}

}  // namespace vsa::video
