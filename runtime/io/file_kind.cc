// Recognises the kind of a file by its first bytes, for messages about unexpected files.
#include "runtime/io/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "runtime/io/ascii.h"

namespace vsa::io {
namespace {

using namespace std::string_view_literals;

constexpr size_t kHeadBytes = 512;

/// Bytes at a place in the file, and what they mean.
struct Signature {
  size_t offset;
  std::string_view bytes;
  const char* kind;
};

constexpr const char* kLfs = "a Git LFS pointer; `git lfs pull` fetches the file itself";
constexpr const char* kWebPage = "a web page; download the file itself, not the page about it";
constexpr const char* kXml = "an XML text, perhaps the error of a server; download the file again";
constexpr const char* kJson = "a JSON text";
constexpr const char* kPickle =
    "a Python pickle, as old PyTorch checkpoints are; convert it to safetensors";
constexpr const char* kGguf =
    "a GGUF file, whose packed types are not computed with; take the f16 or bf16 safetensors of "
    "the same model";
constexpr const char* kGzip = "a gzip archive; unpack it first";
constexpr const char* kArchive = "an archive; unpack it first";
constexpr const char* kPicture = "a picture";

// Signatures that a file of text or weights cannot begin with by chance.
constexpr auto kSignatures = std::to_array<Signature>({
    {0, "version https://git-lfs"sv, kLfs},
    {4, "ftyp"sv, "an MP4 video"},
    {0, "PK\x03\x04"sv,
     "a ZIP archive, as PyTorch's .pt, .pth and .bin files are; convert it to safetensors"},
    {0, "GGUF"sv, kGguf},
    {0, "\x80\x02"sv, kPickle},
    {0, "\x80\x03"sv, kPickle},
    {0, "\x80\x04\x95"sv, kPickle},
    {0, "\x80\x05\x95"sv, kPickle},
    {0, "\x1f\x8b"sv, kGzip},
    {0, "BZh"sv, kArchive},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     kArchive},
    {0, "\x28\xb5\x2f\xfd"sv, kArchive},
    {0, "7z\xbc\xaf\x27\x1c"sv, kArchive},
    {257, "ustar"sv, kArchive},
    {0, "\x89HDF\r\n"sv, "an HDF5 file; convert it to safetensors"},
    {0, "\x93NUMPY"sv, "a NumPy array"},
    {0, "\x89PNG\r\n"sv, kPicture},
    {0, "\xff\xd8\xff"sv, kPicture},
    {0, "GIF8"sv, kPicture},
    {0, "RIFF"sv, "a RIFF file: a video, sound or picture"},
    {0, "\x1a\x45\xdf\xa3"sv, "a Matroska or WebM video"},
    {0, "YUV4MPEG2 "sv, "a y4m video"},
    {0, "OggS"sv, "an Ogg file: a sound or video"},
    {0, "SQLite format 3"sv, "a SQLite database"},
    {0, "PAR1"sv, "a Parquet table"},
    {0, "ARROW1"sv, "an Arrow table"},
    {0, "Rar!\x1a\x07"sv, kArchive},
    {0, "%PDF"sv, "a PDF document"},
    {0,
     "\x7f"
     "ELF"sv,
     "a program"},
});

/// Lower case in ASCII, without a byte order mark and white space in front.
std::string start_of_text(std::string_view head) {
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  return lower(std::string(head.substr(0, 64)));
}

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : byte == '\t' || byte == '\n' || byte == '\r';
  });
}

/// nullptr if the bytes are of no known kind.
const char* known_kind(std::string_view head) {
  if (head.empty()) return "an empty file; download it again";
  for (const Signature& signature : kSignatures) {
    if (head.size() >= signature.offset &&
        head.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.kind;
    }
  }
  if (head.size() >= 16 && std::ranges::all_of(head, [](char c) { return c == '\0'; })) {
    return "a file that begins with zeros, as an unfinished download does; download it again";
  }
  const std::string text = start_of_text(head);
  if (text.starts_with("<!doctype html") || text.starts_with("<html")) return kWebPage;
  if (text.starts_with("<?xml") || text.starts_with("<error")) return kXml;
  if (!is_text(head)) return nullptr;
  // A text this early cannot be the length that a safetensors file begins with.
  return text.starts_with('{') || text.starts_with('[') ? kJson : "a text";
}

std::string_view chars(std::span<const std::byte> head) {
  return {reinterpret_cast<const char*>(head.data()), std::min(head.size(), kHeadBytes)};
}

}  // namespace

bool is_known_kind(std::span<const std::byte> head) { return known_kind(chars(head)) != nullptr; }

std::string file_kind(std::span<const std::byte> head) {
  const char* kind = known_kind(chars(head));
  return kind != nullptr ? kind : "a file that is damaged or of another kind; download it again";
}

std::string file_kind(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "no readable file";
  std::array<char, kHeadBytes> head{};
  file.read(head.data(), head.size());
  return file_kind(std::as_bytes(std::span(head.data(), static_cast<size_t>(file.gcount()))));
}

std::string how_to_convert(const std::filesystem::path& path) {
  std::filesystem::path target = path;
  target.replace_extension(".safetensors");
  return fmt::format(
      "python -c \"import sys, torch; from safetensors.torch import save_file; "
      "save_file({{k: v.clone() for k, v in torch.load(sys.argv[1], map_location='cpu', "
      "weights_only=True).items()}}, sys.argv[2])\" {} {}",
      path.string(), target.string());
}

std::string foreign_weights(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  for (const char* torch : {".pth", ".pt", ".bin", ".ckpt"}) {
    if (extension == torch) {
      return "a PyTorch checkpoint, which is a pickle; convert it to safetensors with: " +
             how_to_convert(path);
    }
  }
  if (extension == ".gguf") return kGguf;
  return {};
}

}  // namespace vsa::io
