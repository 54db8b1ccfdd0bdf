// The list of backends of these tests: as src/api/backend_list.cc, which this replaces when the
// program is linked, and with a backend on the fake device in the place of the next one to come.
#include <fmt/format.h>

#include "src/api/registry.h"
#include "src/core/shared_library.h"
#include "tests/device_backend/device.h"

namespace vsa {
namespace {

using test::FakeDevice;
using test::FakeStream;

BackendInfo info() {
  return {.id = BackendId::kHip, .available = true, .detail = "host memory dressed as a device's"};
}

/// The CPU backend's function behind the manners of a device: asks for workspace, enqueues on a
/// stream.
template <class Args>
Status run_on_device(std::string_view operation, const Context& context, const Args& args,
                     Status (*compute)(const Context&, const Args&)) {
  FakeDevice* device = FakeDevice::current();
  if (context.workspace_query != nullptr) {
    ++device->num_queries;
    *context.workspace_query = FakeDevice::kWorkspaceBytes;
    return {};
  }
  FakeStream* stream = device->find_stream(context.stream);
  if (stream == nullptr || !device->contains(context.workspace.data) ||
      context.workspace.size_bytes < FakeDevice::kWorkspaceBytes) {
    return invalid_argument(
        fmt::format("[{}] workspace: expected {} bytes of the device's, and its stream", operation,
                    FakeDevice::kWorkspaceBytes));
  }
  ++device->num_calls;
  ++device->num_calls_of[std::string(operation)];
  device->now_ms += FakeDevice::kCallMs;
  Status status;
  stream->run([&] {
    const FakeDevice::Opened opened(*device);
    status = compute({.backend = BackendId::kCpu, .num_threads = 1}, args);
  });
  return status;
}

constexpr std::string_view kLibraryNames[] = {"fakeBLAS", "fakeDNN"};

Result<const SharedLibrary*> library(std::string_view name) {
  static constexpr SharedLibrary::Wanted kWanted{
      .name = kLibraryNames[0],
      .file = "libvsafake.so.13",
      .headers = 130000,
      .version = [](const SharedLibrary& opened) -> Result<LibraryVersion> {
        size_t (*version)() = nullptr;
        VSA_TRY(opened.function("cublasLtGetVersion", &version));
        return static_cast<LibraryVersion>(version());
      }};
  if (name != kWanted.name) return unsupported("[vendor_library] fakeDNN: expected it, got none");
  static const Result<SharedLibrary> opened =
      SharedLibrary::open(kWanted, {.first = {VSA_FAKE_LIBRARIES "/right"}});
  VSA_TRY(opened.status());
  return &*opened;
}

#define VSA_FAKE_STAGE(stage, Args, fields)                           \
  Status stage(const Context& context, const Args& args) {            \
    return run_on_device(#stage, context, args, cpu_backend().stage); \
  }
namespace fake {
VSA_FOR_EACH_STAGE(VSA_FAKE_STAGE)

constexpr BackendTable kTable{.id = BackendId::kHip,
                              .info = info,
                              .traits = {.token_dtypes = DType::kF32,
                                         .tile_dtypes = DType::kF32,
                                         .head_dim_step = 8,
                                         .max_head_dim = 24,
                                         .row_bytes = 32,
                                         .memory = MemoryKind::kDevice,
                                         .has_workspace = true,
                                         .has_streams = true,
                                         .dtype_remedy = "convert it",
                                         .head_dim_remedy = "take another backend"},
                              .device = &test::kFakeDeviceFunctions,
                              .library = library,
                              VSA_FOR_EACH_STAGE(VSA_TABLE_ENTRY)};
}  // namespace fake
}  // namespace

const BackendTable* find_backend(BackendId id) {
  switch (id) {
    case BackendId::kReference:
      return &reference_backend();
    case BackendId::kCpu:
      return &cpu_backend();
    case BackendId::kHip:
      return &fake::kTable;
    default:
      return nullptr;
  }
}

const BackendTraits* find_traits(BackendId id) {
  const BackendTable* table = find_backend(id);
  return table != nullptr ? &table->traits : nullptr;
}

std::span<const std::string_view> find_library_names(BackendId id) {
  if (id == BackendId::kHip) return kLibraryNames;
  return {};
}

std::string absence(BackendId /*id*/) { return "not part of these tests"; }

}  // namespace vsa
