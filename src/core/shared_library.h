// A shared library that is loaded at run time, with its version checked. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace vsa {

/// Version as major * 10000 + minor * 100 + patch.
using LibraryVersion = int64_t;
/// "13.1.0"
std::string text_of(LibraryVersion version);

/// Stays loaded until the process ends, also without this object.
class SharedLibrary {
 public:
  /// What to load.
  struct Wanted {
    std::string_view name;       ///< as messages call it: "cuBLAS"
    const char* file = nullptr;  ///< with the version of its interface: "libcublasLt.so.13"
    LibraryVersion headers = 0;  ///< that callers are compiled with; 0: there were none
    /// What the library says of itself.
    Result<LibraryVersion> (*version)(const SharedLibrary& library) = nullptr;
  };

  /// Where to look: `first`, then where the loader looks (LD_LIBRARY_PATH, the system's folders,
  /// what the process has loaded), then `last`. The first file of that name is taken or refused.
  struct Places {
    std::vector<std::filesystem::path> first{}, last{};
    std::string_view hint{};  ///< what a user can do if the file is nowhere
  };

  /// @return Unsupported, with what was found in place of the library
  static Result<SharedLibrary> open(const Wanted& wanted, const Places& places);

  /// @return Unsupported if the library has no such function
  Result<void*> symbol(const char* name) const;
  /// @param to  is set only on success
  template <class Function>
  Status function(const char* name, Function** to) const {
    const Result<void*> address = symbol(name);
    VSA_TRY(address.status());
    *to = reinterpret_cast<Function*>(*address);
    return {};
  }

  LibraryVersion version() const { return version_; }
  /// The file that was loaded.
  const std::string& path() const { return path_; }

 private:
  SharedLibrary(std::string_view name, void* handle, std::string path)
      : name_(name), handle_(handle), path_(std::move(path)) {}

  std::string_view name_;
  void* handle_;
  std::string path_;
  LibraryVersion version_ = 0;
};

}  // namespace vsa
