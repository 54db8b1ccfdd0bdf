// Where the parts of a model are: in its folder, or where the command says.
#include "runtime/model_parts.h"

#include <fmt/format.h>

#include "runtime/io/file_kind.h"
#include "runtime/model_index.h"

namespace vsa::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The names that Wan's own repositories give a part, without their extension.
const char* wan_name(Part part) {
  return part == Part::kVae ? "Wan2.1_VAE" : "models_t5_umt5-xxl-enc-bf16";
}

/// Weights that are a file, whose config.json may lie beside it under diffusers' names.
Result<PartLocation> locate_file(Part part, const fs::path& file) {
  if (const std::string kind = io::foreign_weights(file); !kind.empty()) {
    return unsupported(fmt::format("[model] {}: {}: expected a safetensors file, got {}",
                                   name(part), file.string(), kind));
  }
  const std::string stem = file.filename().string();
  const bool standard = stem.starts_with("diffusion_pytorch_model") || stem.starts_with("model.") ||
                        stem.starts_with("model-");
  const fs::path config = file.parent_path() / kConfig;
  return PartLocation{.weights = file,
                      .config = standard && is_there(config) ? config : fs::path()};
}

PartLocation locate_folder(Part part, const fs::path& folder) {
  if (is_there(folder / kModelIndex)) {
    return {.weights = folder / name(part), .config = folder / name(part) / kConfig};
  }
  const fs::path config = folder / kConfig;
  return {.weights = folder, .config = is_there(config) ? config : fs::path()};
}

/// A part of one of Wan's own repositories, whose text encoder and VAE come as pickles.
Result<PartLocation> locate_in_wan_repository(Part part, const fs::path& root) {
  if (part == Part::kTransformer) {
    return PartLocation{.weights = root, .config = root / kConfig};
  }
  const fs::path file = root / fmt::format("{}.safetensors", wan_name(part));
  if (is_there(file)) return PartLocation{.weights = file, .config = {}};
  const fs::path pickle = root / fmt::format("{}.pth", wan_name(part));
  if (is_there(pickle)) return locate_file(part, pickle);
  return io_error(
      fmt::format("[model] {}: expected {}, got no such file", name(part), file.string()));
}

}  // namespace

const char* name(Part part) {
  switch (part) {
    case Part::kTransformer:
      return "transformer";
    case Part::kVae:
      return "vae";
    case Part::kTextEncoder:
      break;
  }
  return "text_encoder";
}

bool is_wan_repository(const fs::path& root) {
  return !is_there(root / kModelIndex) && is_there(root / kConfig);
}

Result<PartLocation> locate_part(Part part, const fs::path& root, const fs::path& elsewhere) {
  if (elsewhere.empty()) {
    if (is_wan_repository(root)) return locate_in_wan_repository(part, root);
    return PartLocation{.weights = root / name(part), .config = root / name(part) / kConfig};
  }
  if (is_folder(elsewhere)) return locate_folder(part, elsewhere);
  if (is_there(elsewhere)) return locate_file(part, elsewhere);
  return io_error(fmt::format("[model] {}: expected a folder or a safetensors file, got none of {}",
                              name(part), elsewhere.string()));
}

fs::path locate_tokenizer(const fs::path& root) {
  const fs::path wan = root / "google" / "umt5-xxl" / "spiece.model";
  return is_wan_repository(root) && is_there(wan) ? wan : root / "tokenizer" / "spiece.model";
}

}  // namespace vsa::runtime
