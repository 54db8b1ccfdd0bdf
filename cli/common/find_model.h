// Finds the folder of a model by its name. Host-only.
#pragma once

#include <filesystem>
#include <string>

namespace vsa::cli {

/// The folder of a model. A path to a folder is that folder. A plain name is looked for in
/// 1. the current folder,
/// 2. the folders of VSA_MODELS, with colons between them,
/// 3. the models that belong to this program: those of its build tree, or of the prefix where it is
///    installed.
/// @param what  the option or argument that names it, for the message
/// Throws Failure(kInputOutput) that lists where it looked.
std::filesystem::path find_model(const std::string& what, const std::string& name);

}  // namespace vsa::cli
