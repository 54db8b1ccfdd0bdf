// Encoding frames through FFmpeg's libraries into one file.
//
//   Frames --upscaled copy--> AVFrame rgb24 --filters--> AVFrame --encoder--> AVPacket --muxer-->
//   AtomicFile
#include "runtime/video/encode.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/io/atomic_file.h"
#include "runtime/video/libav.h"

namespace vsa::video {
namespace {

/// A muxer that writes into an AtomicFile, which keeps the first write error.
class Muxer {
 public:
  explicit Muxer(io::AtomicFile& file) : file_(file) {}
  Muxer(const Muxer&) = delete;
  Muxer& operator=(const Muxer&) = delete;
  ~Muxer() {
    avformat_free_context(context_);
    if (io_ != nullptr) av_freep(&io_->buffer);
    avio_context_free(&io_);
  }

  int open(const char* name) {
    constexpr int kBufferBytes = 1 << 16;
    const int code = avformat_alloc_output_context2(&context_, nullptr, name, nullptr);
    if (code < 0) return code;
    auto* buffer = static_cast<unsigned char*>(av_malloc(kBufferBytes));
    if (buffer == nullptr) return AVERROR(ENOMEM);
    io_ = avio_alloc_context(buffer, kBufferBytes, 1, &file_, nullptr, on_write, on_seek);
    if (io_ == nullptr) {
      av_free(buffer);
      return AVERROR(ENOMEM);
    }
    context_->pb = io_;
    context_->flags |= AVFMT_FLAG_BITEXACT;  // no library versions or times in the file
    return 0;
  }

  AVFormatContext* get() const { return context_; }

 private:
  // A template, because the type of the bytes differs between versions of the library.
  template <class Byte>
  static int on_write(void* file, Byte* bytes, int size) {
    const std::span<const uint8_t> span(bytes, static_cast<size_t>(size));
    return static_cast<io::AtomicFile*>(file)->write(std::as_bytes(span)).ok() ? size
                                                                               : AVERROR(EIO);
  }
  static int64_t on_seek(void* file, int64_t offset, int whence) {
    if ((whence & ~AVSEEK_FORCE) != SEEK_SET) return AVERROR(ENOSYS);
    return static_cast<io::AtomicFile*>(file)->seek(offset).ok() ? offset : AVERROR(EIO);
  }

  io::AtomicFile& file_;
  AVFormatContext* context_ = nullptr;
  AVIOContext* io_ = nullptr;
};

/// The run of one file. Steps return negative codes of libav and say in `action` what they try.
class Encoding {
 public:
  Encoding(const Frames& frames, const WriteOptions& options, const EncodeRecipe& recipe,
           io::AtomicFile& file)
      : frames_(frames), scale_(options.scale), recipe_(recipe), options_(options), muxer_(file) {}

  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;
  ~Encoding() {
    // After a failure too: the gif muxer frees its last frame here and nowhere else.
    if (has_header_) av_write_trailer(muxer_.get());
  }

  int run(AVRational frame_rate) {
    frame_rate_ = frame_rate;
    for (const auto step : {&Encoding::open_graph, &Encoding::open_encoder, &Encoding::open_stream,
                            &Encoding::encode_all, &Encoding::finish}) {
      if (const int code = (this->*step)(); code < 0) return code;
    }
    return 0;
  }

  const char* action = "";

 private:
  int open_graph() {
    action = "set up filters";
    picture_.reset(av_frame_alloc());
    filtered_.reset(av_frame_alloc());
    packet_.reset(av_packet_alloc());
    if (picture_ == nullptr || filtered_ == nullptr || packet_ == nullptr) return AVERROR(ENOMEM);
    const int64_t multiple = recipe_.needs_even_size ? 2 : 1;
    const auto padded = [&](int64_t size) {
      return static_cast<int>((size * scale_ + multiple - 1) / multiple * multiple);
    };
    picture_->width = padded(frames_.width);
    picture_->height = padded(frames_.height);
    picture_->format = AV_PIX_FMT_RGB24;
    return graph_.build(*picture_, frame_rate_, recipe_.filters);
  }

  int open_encoder() {
    action = "set up the encoder";
    int code = muxer_.open(recipe_.muxer);
    if (code < 0) return code;
    codec_.reset(avcodec_alloc_context3(avcodec_find_encoder_by_name(recipe_.encoder)));
    if (codec_ == nullptr) return AVERROR(ENOMEM);
    codec_->width = av_buffersink_get_w(graph_.sink);
    codec_->height = av_buffersink_get_h(graph_.sink);
    codec_->pix_fmt = static_cast<AVPixelFormat>(av_buffersink_get_format(graph_.sink));
    codec_->time_base = av_inv_q(frame_rate_);
    codec_->framerate = frame_rate_;
    codec_->flags |= AV_CODEC_FLAG_BITEXACT;
    codec_->thread_count = 1;  // the same bytes on any machine
    if ((muxer_.get()->oformat->flags & AVFMT_GLOBALHEADER) != 0) {
      codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    for (const auto& [key, value] : recipe_.encoder_options) {
      code = av_opt_set(codec_.get(), key, value, AV_OPT_SEARCH_CHILDREN);
      if (code < 0) return code;
    }
    return avcodec_open2(codec_.get(), codec_->codec, nullptr);
  }

  int open_stream() {
    action = "write the header";
    stream_ = avformat_new_stream(muxer_.get(), nullptr);
    if (stream_ == nullptr) return AVERROR(ENOMEM);
    stream_->time_base = codec_->time_base;
    stream_->avg_frame_rate = frame_rate_;
    int code = avcodec_parameters_from_context(stream_->codecpar, codec_.get());
    for (const auto& [key, value] : recipe_.tags) {
      if (code >= 0) code = av_dict_set(&muxer_.get()->metadata, key, value.c_str(), 0);
    }
    if (code >= 0) code = avformat_write_header(muxer_.get(), nullptr);
    has_header_ = code >= 0;
    return code;
  }

  /// AVERROR_EXIT once the run is cancelled, else 0.
  int poll() const { return options_.cancel != nullptr && *options_.cancel ? AVERROR_EXIT : 0; }

  int encode_all() {
    action = "encode";
    for (int64_t i = 0; i < frames_.num_frames; ++i) {
      int code = options_.wait_for_frame && !options_.wait_for_frame(i) ? AVERROR_EXIT : poll();
      if (code >= 0) code = fill_picture(i);
      if (code >= 0) code = av_buffersrc_write_frame(graph_.source, picture_.get());
      if (code >= 0) code = drain_graph();
      if (code < 0) return code;
    }
    return 0;
  }

  int finish() {
    int code = av_buffersrc_close(graph_.source, frames_.num_frames, 0);
    if (code >= 0) code = drain_graph();
    if (code >= 0) code = encode_one(nullptr);
    if (code < 0) return code;
    action = "write the trailer";
    has_header_ = false;
    return av_write_trailer(muxer_.get());
  }

  /// Frame i, upscaled; the row and column that make the size even repeat their neighbours.
  int fill_picture(int64_t i) {
    // The filters may still hold the last frame's memory, so every frame gets its own.
    const int width = picture_->width;
    const int height = picture_->height;
    av_frame_unref(picture_.get());
    picture_->width = width;
    picture_->height = height;
    picture_->format = AV_PIX_FMT_RGB24;
    picture_->pts = i;
    if (const int code = av_frame_get_buffer(picture_.get(), 0); code < 0) return code;
    const uint8_t* source = frames_.frame(i).data();
    for (int y = 0; y < height; ++y) {
      const int64_t from_y = std::min<int64_t>(y / scale_, frames_.height - 1);
      uint8_t* row = picture_->data[0] + int64_t{y} * picture_->linesize[0];
      for (int x = 0; x < width; ++x) {
        const int64_t from_x = std::min<int64_t>(x / scale_, frames_.width - 1);
        std::copy_n(source + (from_y * frames_.width + from_x) * 3, 3, row + int64_t{x} * 3);
      }
    }
    return 0;
  }

  int drain_graph() {
    for (;;) {
      int code = av_buffersink_get_frame(graph_.sink, filtered_.get());
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return 0;
      if (code >= 0) code = encode_one(filtered_.get());
      av_frame_unref(filtered_.get());
      if (code < 0) return code;
    }
  }

  /// Encodes a frame, or flushes the encoder if it is nullptr.
  int encode_one(AVFrame* frame) {
    if (frame != nullptr) frame->pict_type = AV_PICTURE_TYPE_NONE;  // the encoder chooses
    int code = poll();
    if (code >= 0) code = avcodec_send_frame(codec_.get(), frame);
    while (code >= 0) {
      code = avcodec_receive_packet(codec_.get(), packet_.get());
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return 0;
      if (code < 0) return code;
      packet_->stream_index = stream_->index;
      packet_->duration = 1;  // without it the last frame would last no time
      av_packet_rescale_ts(packet_.get(), codec_->time_base, stream_->time_base);
      code = av_interleaved_write_frame(muxer_.get(), packet_.get());
      if (code >= 0) code = poll();  // encoders hold back frames until there are no more
    }
    return code;
  }

  const Frames& frames_;
  const int64_t scale_;
  const EncodeRecipe& recipe_;
  const WriteOptions& options_;
  AVRational frame_rate_{};
  Muxer muxer_;
  CodecPtr codec_;
  FilterGraph graph_;
  FramePtr picture_;
  FramePtr filtered_;
  PacketPtr packet_;
  AVStream* stream_ = nullptr;  // owned by the muxer
  bool has_header_ = false;     // and no trailer yet
};

}  // namespace

Status encode(const std::filesystem::path& path, const Frames& frames, const WriteOptions& options,
              const EncodeRecipe& recipe) {
  if (avcodec_find_encoder_by_name(recipe.encoder) == nullptr ||
      av_guess_format(recipe.muxer, nullptr, nullptr) == nullptr) {
    return unsupported(
        fmt::format("[write_video] {}: expected FFmpeg libraries with {} and {}, got "
                    "a build without",
                    path.string(), recipe.muxer, recipe.encoder));
  }
  Result<io::AtomicFile> file = io::AtomicFile::create(path);
  if (!file.ok()) return file.status();
  const LibavLog log;
  Encoding encoding(frames, options, recipe, *file);
  // 1001 * 1000: wide enough for 24000/1001 and its kin, and for three decimals.
  const int code = encoding.run(av_d2q(options.fps, 1'001'000));
  // The file knows best why it could not be written; the libraries only know that it could not.
  VSA_TRY(file->status());
  if (code == AVERROR_EXIT) {
    return Status(StatusCode::kCancelled,
                  fmt::format("[write_video] {}: cancelled", path.string()));
  }
  if (code == AVERROR(ENOMEM))
    return out_of_memory("[write_video] memory: expected enough, got none");
  if (code < 0) return libav_error("write_video", path, encoding.action, code, log);
  if (!recipe.gif_comment.empty()) {
    VSA_TRY(file->seek(file->position() - 1));  // the last byte is the trailer
    VSA_TRY(file->write(recipe.gif_comment + ';'));
  }
  return file->commit();
}

}  // namespace vsa::video
