// A backend that lives on a device which nobody knows by name: every entrance of the library serves
// it by its traits.
#include <gmock/gmock.h>

#include <memory>

#include "tests/device_backend/device.h"
#include "tests/support/calls.h"
#include "vsa/c_api.h"
#include "vsa/vendor_library.h"

namespace vsa::test {
namespace {

constexpr BackendId kFake = BackendId::kHip;

/// A call whose tensors and tables lie on a device, and a workspace for it.
template <class Setup>
class OnDevice {
 public:
  OnDevice() {
    std::pmr::memory_resource* host = std::pmr::set_default_resource(&device);
    call = std::make_unique<Setup>();
    std::pmr::set_default_resource(host);
    workspace = {device.allocate(FakeDevice::kWorkspaceBytes), FakeDevice::kWorkspaceBytes};
    device.close();
  }
  ~OnDevice() { device.open(); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Context context() {
    return {.backend = kFake, .stream = device.stream(), .workspace = workspace};
  }
  Status run(const Context& with) {
    call->context = with;
    return call->run();
  }

  FakeDevice device;
  std::unique_ptr<Setup> call;
  Workspace workspace;
};

template <class Setup>
void expect_served(const char* name) {
  SCOPED_TRACE(name);
  Setup host;
  ASSERT_TRUE(host.run().ok());

  OnDevice<Setup> there;
  int64_t bytes = -1;
  Context query{.backend = kFake};
  query.workspace_query = &bytes;
  Status status = there.run(query);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(bytes, FakeDevice::kWorkspaceBytes);
  EXPECT_EQ(there.device.num_queries, 1);

  status = there.run({.backend = kFake});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << "no stream, no workspace";
  EXPECT_EQ(there.device.num_calls, 0);

  status = there.run(there.context());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(there.device.num_calls, 1);
  there.device.open();
  EXPECT_TRUE(there.call->arena.bytes() == host.arena.bytes());
}

TEST(DeviceBackend, ServesEveryStage) {
  expect_served<TileCall>("tile");
  expect_served<UntileCall>("untile");
  expect_served<PoolCall>("pool");
  expect_served<PoolBackwardCall>("pool_backward");
  expect_served<NormRopePoolCall>("norm_rope_pool");
  expect_served<LinearCall>("linear");
  expect_served<ResidualNormCall>("residual_norm");
  expect_served<Conv3dCall>("conv3d");
  expect_served<PixelNormCall>("pixel_norm");
  expect_served<UpsampleCall>("upsample");
  expect_served<SoftmaxCall>("softmax");
  expect_served<RelativeAttentionCall>("relative_attention");
  expect_served<CoarseCall>("coarse");
  expect_served<CoarseBackwardCall>("coarse_backward");
  expect_served<SelectCall>("select");
  expect_served<FineCall>("fine");
  expect_served<FineBackwardCall>("fine_backward");
  expect_served<CombineCall>("combine");
  expect_served<CombineBackwardCall>("combine_backward");
  expect_served<AttentionCall>("attention_forward");
  expect_served<AttentionBackwardCall>("attention_backward");
}

/// What validation asks comes from the traits, and its messages say so.
TEST(DeviceBackend, IsValidatedByItsTraits) {
  OnDevice<FineCall> there;
  FineArgs& args = there.call->args;
  const FineArgs good = args;
  const auto refused = [&](const std::string& text) {
    const Status status = there.run(there.context());
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), testing::StartsWith(text));
    args = good;
  };
  args.q.dtype = DType::kBF16;
  refused("[fine] q: expected f32 [B,H,32,D] on the hip backend, got bf16 [2,4,32,8]; convert it");
  args.q.dtype = DType::kF64;
  refused(
      "[fine] q: expected f32 [B,H,32,D] on the hip backend, got f64 [2,4,32,8]; the reference "
      "backend takes f64");
  args.q.shape[3] = 32;
  refused(
      "[fine] q: expected a head_dim of 8, 16 or 24 on the hip backend, got 32; take another "
      "backend");
  args.v.stride[2] += 1;
  refused("[fine] v: expected rows at multiples of 32 bytes on the hip backend, got address 0x");
  EXPECT_EQ(there.device.num_calls, 0);
}

TEST(DeviceBackend, SaysWhatItTakes) {
  const BackendTraits traits = backend_traits(kFake).value();
  EXPECT_EQ(traits.memory, MemoryKind::kDevice);
  EXPECT_TRUE(traits.has_workspace && traits.has_streams);
  EXPECT_FALSE(traits.token_dtypes.contains(DType::kBF16));
  EXPECT_TRUE(traits.takes_head_dim(16));
  EXPECT_FALSE(traits.takes_head_dim(32));
  EXPECT_TRUE(implements(kFake, "norm_rope_pool"));
  EXPECT_EQ(backend_traits(BackendId::kCuda).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(backend_traits(static_cast<BackendId>(9)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(DeviceBackend, GivesFunctionsOfItsLibraries) {
  const std::vector<VendorLibraryInfo> all = vendor_libraries(kFake);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "fakeBLAS");
  EXPECT_TRUE(all[0].available);
  EXPECT_THAT(all[0].detail, testing::StartsWith("13.2.0, "));
  EXPECT_FALSE(all[1].available);
  EXPECT_EQ(all[1].detail, "expected it, got none");

  int (*sum)(int, int) = nullptr;
  const Status status = vendor_function(kFake, "fakeBLAS", "vsa_fake_sum", &sum);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(sum(40, 2), 42);
  EXPECT_EQ(vendor_function(kFake, "fakeDNN", "vsa_fake_sum", &sum).message(),
            "[vendor_library] fakeDNN: expected it, got none");
}

vsa_const_tensor to_c(const ConstTensor& t) {
  vsa_const_tensor c{
      .data = t.data, .dtype = static_cast<int32_t>(t.dtype), .shape = {}, .stride = {}};
  std::ranges::copy(t.shape, c.shape);
  std::ranges::copy(t.stride, c.stride);
  return c;
}

/// The C ABI is another entrance to the same calls.
TEST(DeviceBackend, ServesTheCAbi) {
  OnDevice<PoolCall> there;
  const int64_t grid[3] = {2, 4, 5};
  const int64_t tile[3] = {2, 2, 2};
  vsa_plan* plan = nullptr;
  ASSERT_EQ(vsa_plan_create_grid(grid, tile, &plan), VSA_OK);
  vsa_pool_args args{};
  args.struct_size = sizeof args;
  args.x = to_c(there.call->args.x);
  args.plan = plan;
  const vsa_const_tensor pooled = to_c(there.call->args.pooled);
  args.pooled.data = there.call->args.pooled.data;
  args.pooled.dtype = pooled.dtype;
  std::ranges::copy(pooled.shape, args.pooled.shape);
  std::ranges::copy(pooled.stride, args.pooled.stride);
  vsa_context context{};
  context.struct_size = sizeof context;
  context.backend = VSA_HIP;
  int64_t bytes = 0;
  context.workspace_query = &bytes;
  EXPECT_EQ(vsa_pool(&context, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(bytes, FakeDevice::kWorkspaceBytes);
  context.workspace_query = nullptr;
  context.stream = there.device.stream();
  context.workspace = there.workspace.data;
  context.workspace_bytes = bytes;
  EXPECT_EQ(vsa_pool(&context, &args), VSA_OK) << vsa_last_error();
  EXPECT_EQ(there.device.num_calls, 1);
  vsa_plan_destroy(plan);
}

}  // namespace
}  // namespace vsa::test
