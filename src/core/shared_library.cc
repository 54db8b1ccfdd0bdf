// Loading a shared library by name, and refusing one of another version. Host-only.
#include "src/core/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <utility>

namespace vsa {
namespace {

namespace fs = std::filesystem;

/// What the loader last complained of.
std::string complaint() {
  const char* said = dlerror();
  return said != nullptr ? said : "nothing";
}

/// Where the loader found it.
std::string path_of(void* handle, const char* file) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0') return map->l_name;
  return file;
}

struct Opened {
  void* handle = nullptr;  // null: the file is in none of the places
  std::string path;
};

Status not_loadable(std::string_view name, std::string_view path, std::string_view said) {
  return unsupported(fmt::format(
      "[vendor_library] {}: expected a shared library, got {}, which cannot be loaded: {}", name,
      path, said));
}

Result<Opened> open_in(const std::vector<fs::path>& folders, const SharedLibrary::Wanted& wanted) {
  for (const fs::path& folder : folders) {
    const fs::path path = folder / wanted.file;
    std::error_code unreadable;
    if (!fs::exists(fs::symlink_status(path, unreadable))) continue;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return not_loadable(wanted.name, path.c_str(), complaint());
    return Opened{handle, path.string()};
  }
  return Opened{};
}

Result<Opened> open_by_name(const SharedLibrary::Wanted& wanted) {
  void* handle = dlopen(wanted.file, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return Opened{handle, path_of(handle, wanted.file)};
  const std::string said = complaint();
  // Of a library that this one needs the loader says the same with that one's name.
  if (said.starts_with(fmt::format("{}: cannot open shared object file: No such", wanted.file))) {
    return Opened{};
  }
  return not_loadable(wanted.name, wanted.file, said);
}

Result<Opened> open_anywhere(const SharedLibrary::Wanted& wanted,
                             const SharedLibrary::Places& places) {
  Result<Opened> opened = open_in(places.first, wanted);
  if (opened.ok() && opened->handle == nullptr) opened = open_by_name(wanted);
  if (opened.ok() && opened->handle == nullptr) opened = open_in(places.last, wanted);
  return opened;
}

/// "a, the loader's path, b"
std::string text_of(const SharedLibrary::Places& places) {
  std::string text;
  for (const fs::path& folder : places.first) text += folder.string() + ", ";
  text += "the loader's path";
  for (const fs::path& folder : places.last) text += ", " + folder.string();
  return text;
}

constexpr LibraryVersion major_of(LibraryVersion version) { return version / 10000; }

}  // namespace

std::string text_of(LibraryVersion version) {
  return fmt::format("{}.{}.{}", major_of(version), version / 100 % 100, version % 100);
}

Result<SharedLibrary> SharedLibrary::open(const Wanted& wanted, const Places& places) {
  if (wanted.headers == 0) {
    return unsupported(fmt::format(
        "[vendor_library] {}: expected headers when vsa was built, there were none", wanted.name));
  }
  Result<Opened> opened = open_anywhere(wanted, places);
  VSA_TRY(opened.status());
  if (opened->handle == nullptr) {
    return unsupported(
        fmt::format("[vendor_library] {}: expected {} in one of: {}; found it in none; {}",
                    wanted.name, wanted.file, text_of(places), places.hint));
  }
  SharedLibrary library(wanted.name, opened->handle, std::move(opened->path));
  const Result<LibraryVersion> version = wanted.version(library);
  VSA_TRY(version.status());
  if (major_of(*version) != major_of(wanted.headers)) {
    return unsupported(
        fmt::format("[vendor_library] {}: expected version {}, as the headers that vsa was built "
                    "with ({}), got {} in {}",
                    wanted.name, major_of(wanted.headers), vsa::text_of(wanted.headers),
                    vsa::text_of(*version), library.path()));
  }
  library.version_ = *version;
  return library;
}

Result<void*> SharedLibrary::symbol(const char* name) const {
  if (void* address = dlsym(handle_, name)) return address;
  return unsupported(
      fmt::format("[vendor_library] {}: expected the function {}, got a library without it: {}",
                  name_, name, path_));
}

}  // namespace vsa
