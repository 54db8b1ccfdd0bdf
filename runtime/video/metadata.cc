// What a video or picture says about itself, inside the file.
#include "runtime/video/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/io/file_kind.h"
#include "runtime/io/mmap.h"
#include "runtime/video/libav.h"

namespace vsa::video {
namespace {

using namespace std::string_literals;

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr size_t kChunkFrame = 12;  // length, type and checksum of a chunk, 4 bytes each
constexpr size_t kHeaderChunk = 13 + kChunkFrame;
constexpr uint8_t kGifComment = 0xFE;

bool is_png(std::string_view bytes) { return bytes.starts_with(kPngSignature); }
bool is_gif(std::string_view bytes) { return bytes.starts_with("GIF8"); }
bool is_mp4(std::string_view bytes) { return bytes.size() > 8 && bytes.substr(4, 4) == "ftyp"; }

std::string_view chars(const io::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// The checksum of PNG (ISO 3309), bit by bit: the texts are short.
uint32_t crc32(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return crc ^ 0xFFFFFFFFU;
}

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
  return bytes;
}

uint32_t from_big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

/// A chunk of international text: not compressed, of no language.
std::string text_chunk(std::string_view keyword, const std::string& text) {
  if (text.empty()) return {};
  const std::string body = "iTXt" + std::string(keyword) + "\0\0\0\0\0"s + text;
  return big_endian(static_cast<uint32_t>(body.size() - 4)) + body + big_endian(crc32(body));
}

/// The text of an iTXt chunk's content if its keyword is that one.
std::optional<std::string> text_of(std::string_view content, std::string_view keyword) {
  const std::string start = std::string(keyword) + "\0\0\0"s;  // uncompressed
  if (!content.starts_with(start)) return {};
  const size_t language = content.find('\0', start.size());
  const size_t translated = language == content.npos ? language : content.find('\0', language + 1);
  if (translated == content.npos) return {};
  return std::string(content.substr(translated + 1));
}

Metadata of_png(std::string_view bytes) {
  Metadata metadata;
  bytes.remove_prefix(kPngSignature.size());
  while (bytes.size() >= kChunkFrame) {
    const size_t length = from_big_endian(bytes);
    if (length > bytes.size() - kChunkFrame) break;
    const std::string_view content = bytes.substr(8, length);
    if (bytes.substr(4, 4) == "iTXt") {
      if (const auto text = text_of(content, "Title")) metadata.title = *text;
      if (const auto text = text_of(content, "Comment")) metadata.comment = *text;
    }
    bytes.remove_prefix(length + kChunkFrame);
  }
  return metadata;
}

/// Takes the sub-blocks in front of `bytes`, each a length and that many bytes, to the empty one.
std::string take_sub_blocks(std::string_view& bytes) {
  std::string content;
  while (!bytes.empty()) {
    const size_t length = static_cast<uint8_t>(bytes.front());
    content += bytes.substr(1, length);
    bytes.remove_prefix(std::min(length + 1, bytes.size()));
    if (length == 0) break;
  }
  return content;
}

/// Bytes of the colour table that a packed field announces.
size_t colour_table_bytes(char packed) {
  const auto field = static_cast<uint8_t>(packed);
  return (field & 0x80U) != 0 ? size_t{3} << ((field & 7U) + 1) : 0;
}

Metadata of_gif(std::string_view bytes) {
  constexpr size_t kHeader = 13;      // signature, size of the screen, its colour table's size
  constexpr size_t kDescriptor = 10;  // of an image; then a byte in front of its data
  const auto skip = [&bytes](size_t count) { bytes.remove_prefix(std::min(count, bytes.size())); };
  if (bytes.size() < kHeader) return {};
  skip(kHeader + colour_table_bytes(bytes[10]));
  while (bytes.size() > 1) {
    if (bytes[0] == '!') {
      const bool is_comment = static_cast<uint8_t>(bytes[1]) == kGifComment;
      skip(2);
      std::string content = take_sub_blocks(bytes);
      if (is_comment) return {.title = {}, .comment = std::move(content)};
    } else if (bytes[0] == ',' && bytes.size() > kDescriptor) {
      skip(kDescriptor + colour_table_bytes(bytes[kDescriptor - 1]) + 1);
      take_sub_blocks(bytes);
    } else {
      break;
    }
  }
  return {};
}

Result<Metadata> of_container(const std::filesystem::path& path) {
  const LibavLog log;
  AVFormatContext* input = nullptr;
  const int code = avformat_open_input(&input, path.c_str(), nullptr, nullptr);
  if (code < 0) return libav_error("read_metadata", path, "open", code, log);
  const auto tag = [input](const char* key) -> std::string {
    const AVDictionaryEntry* entry = av_dict_get(input->metadata, key, nullptr, 0);
    return entry != nullptr ? entry->value : "";
  };
  Metadata metadata{.title = tag("title"), .comment = tag("comment")};
  avformat_close_input(&input);
  return metadata;
}

}  // namespace

std::string png_with_metadata(const std::string& png, const Metadata& metadata) {
  std::string result = png;
  return result.insert(
      kPngSignature.size() + kHeaderChunk,
      text_chunk("Title", metadata.title) + text_chunk("Comment", metadata.comment));
}

std::string gif_comment(const std::string& comment) {
  constexpr size_t kMostOfBlock = 255;
  std::string block = {'!', static_cast<char>(kGifComment)};
  for (size_t start = 0; start < comment.size(); start += kMostOfBlock) {
    const std::string part = comment.substr(start, kMostOfBlock);
    block += static_cast<char>(part.size());
    block += part;
  }
  return block + '\0';
}

bool is_file_of_metadata(const std::filesystem::path& path) {
  const Result<io::MappedFile> file = io::MappedFile::open(path);
  if (!file.ok()) return false;
  const std::string_view bytes = chars(*file);
  return is_png(bytes) || is_gif(bytes) || is_mp4(bytes);
}

Result<Metadata> read_metadata(const std::filesystem::path& path) {
  const Result<io::MappedFile> file = io::MappedFile::open(path);
  if (!file.ok()) return file.status();
  const std::string_view bytes = chars(*file);
  if (is_png(bytes)) return of_png(bytes);
  if (is_gif(bytes)) return of_gif(bytes);
  if (is_mp4(bytes)) return of_container(path);
  return io_error(fmt::format("[read_metadata] {}: expected an mp4, gif or png file, got {}",
                              path.string(), io::file_kind(file->bytes())));
}

}  // namespace vsa::video
