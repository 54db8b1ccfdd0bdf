// Recognises the kind of a file by its first bytes, for messages about unexpected files. Host-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace vsa::io {

/// The kind of file that the bytes are of, and what to do about it: "a Git LFS pointer; `git lfs
/// pull` fetches the file itself". Bytes of no known kind give "a file that is damaged or of
/// another kind", no bytes "an empty file".
/// @param head  the first bytes of a file, 512 of them or all
std::string file_kind(std::span<const std::byte> head);

/// The same of a file; "no readable file" if it cannot be read.
std::string file_kind(const std::filesystem::path& path);

/// Whether the bytes begin as those of some other known kind of file do: the message about a failed
/// check is then better made with file_kind.
bool is_known_kind(std::span<const std::byte> head);

/// Why a file cannot be read by its name alone, and what to do: PyTorch's .pth, .pt, .bin and
/// .ckpt, .gguf. Empty for any other name.
std::string foreign_weights(const std::filesystem::path& path);

/// A command that converts PyTorch's kind of file to safetensors.
std::string how_to_convert(const std::filesystem::path& path);

}  // namespace vsa::io
