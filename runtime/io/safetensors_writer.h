// Writer of safetensors files. Host-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/atomic_file.h"
#include "runtime/io/safetensors.h"
#include "vsa/status.h"

namespace vsa::io {

/// Writes one file, whole or not at all (see AtomicFile). The same tensors and metadata give the
/// same bytes: tensors are laid out by descending element size, then by name, after a header padded
/// to 64 bytes, so that every tensor is aligned to its elements.
/// @param tensors  row-major; `bytes` must fit type and shape
/// @return InvalidArgument if a tensor's bytes do not fit its type and shape, an extent is
/// negative,
///         or a name or metadata string is not UTF-8 or is "__metadata__"; IoError if the file
///         cannot be written
Status write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                         const Metadata& metadata = {});

/// The same under a name that is free: see AtomicFile::commit_to_free_name.
Result<WrittenFile> write_new_safetensors(const std::filesystem::path& path,
                                          const TensorMap& tensors, const Metadata& metadata);

}  // namespace vsa::io
