// What needs more than one small tensor: more than 2^31 elements, a second device.
#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {
namespace {

/// Copies the rows of a small [1, 1, S, D] tensor to or from contiguous rows on the device.
template <class Small>
void copy_rows(const Small& small, std::byte* rows, cudaMemcpyKind kind) {
  const auto width = static_cast<size_t>(small.shape[3] * 2);
  const auto pitch = static_cast<size_t>(small.stride[2] * 2);
  const auto height = static_cast<size_t>(small.shape[2]);
  if (kind == cudaMemcpyHostToDevice) {
    expect_cuda(cudaMemcpy2D(rows, width, small.data, pitch, width, height, kind));
  } else {
    expect_cuda(
        cudaMemcpy2D(const_cast<void*>(small.data), pitch, rows, width, width, height, kind));
  }
}

/// All rows but the last four of the last head are empty; those lie beyond element 2^31 of every
/// tensor.
TEST(GpuLarge, T27_MoreThanTwoToThe31Elements) {
  VSA_NEEDS_GPU;
  constexpr int64_t kTiles = 3282;
  constexpr int64_t kTail = 4;
  constexpr Dims kDims{2, 40, kTiles * 64, 128};
  constexpr int64_t kBytes = kDims.batch * kDims.num_heads * kDims.seq_len * kDims.head_dim * 2;
  static_assert(kBytes / 2 - kTail * 64 * 128 > int64_t{1} << 31);
  size_t free = 0;
  size_t total = 0;
  expect_cuda(cudaMemGetInfo(&free, &total));
  if (free < size_t{5} * kBytes) GTEST_SKIP() << "needs 22 GB of device memory, has " << free;

  const TilePlan tail = tiled_plan({64, 64, 64, 50}, 64);
  std::vector<int32_t> lens(kTiles, 64);
  lens.back() = 50;
  const TilePlan plan = tiled_plan(lens, 64);
  Qkv in = make_qkv(DType::kBF16, {1, 1, 1, 128}, tail, tail, 1);
  LutBuffer small({1, 1, kTail, 2});
  LutBuffer large({2, 40, kTiles, 2});
  const int32_t kept[kTail][2] = {{0, 2}, {1, 3}, {0, 1}, {2, 3}};
  for (int64_t row = 0; row < kTail; ++row) {
    const int64_t large_row = 80 * kTiles - kTail + row;
    small.view().count[row] = large.view().count[large_row] = 2;
    for (int64_t i = 0; i < 2; ++i) {
      small.view().index[row * 2 + i] = kept[row][i];
      large.view().index[large_row * 2 + i] = kept[row][i] + static_cast<int32_t>(kTiles - kTail);
    }
  }

  constexpr int64_t kTailStart = kBytes - kTail * 64 * 128 * 2;
  const DeviceBytes q(kBytes);
  const DeviceBytes k(kBytes);
  const DeviceBytes v(kBytes);
  const DeviceBytes out(kBytes);
  copy_rows(ConstTensor(in.q.view()), q.data() + kTailStart, cudaMemcpyHostToDevice);
  copy_rows(ConstTensor(in.k.view()), k.data() + kTailStart, cudaMemcpyHostToDevice);
  copy_rows(ConstTensor(in.v.view()), v.data() + kTailStart, cudaMemcpyHostToDevice);
  const DeviceLut table(large.view());
  run_on_gpu([&](const Context& c) {
    return fine(c, {.q = ConstTensor::bhsd(q.data(), DType::kBF16, kDims),
                    .k = ConstTensor::bhsd(k.data(), DType::kBF16, kDims),
                    .v = ConstTensor::bhsd(v.data(), DType::kBF16, kDims),
                    .q_plan = &plan,
                    .kv_plan = &plan,
                    .lut = table.view(),
                    .out = Tensor::bhsd(out.data(), DType::kBF16, kDims)});
  });
  TestTensor got(DType::kBF16, in.q.dims());
  copy_rows(got.view(), out.data() + kTailStart, cudaMemcpyDeviceToHost);
  expect_close(got, test::run_fine(kReference, as_f64(in), small.view()).out,
               fine_tolerance(in, small.view()).out);
  // An empty row, just before.
  std::vector<uint16_t> before(128, 1);
  expect_cuda(
      cudaMemcpy(before.data(), out.data() + kTailStart - 256, 256, cudaMemcpyDeviceToHost));
  EXPECT_EQ(before, std::vector<uint16_t>(128, 0));
}

/// The device of q decides, not the current one, which stays current.
TEST(GpuDevices, T50_TheDeviceOfQDecides) {
  VSA_NEEDS_GPU;
  int count = 0;
  expect_cuda(cudaGetDeviceCount(&count));
  if (count < 2) GTEST_SKIP() << "one device only";
  const Heads heads{1, 2, 1, 128};
  const TilePlan plan = grid_plan({5, 6, 9}, {4, 4, 4});
  const Qkv in = make_qkv(DType::kBF16, heads, plan, plan, 1);
  const LutBuffer lut = random_lut(heads, plan.num_tiles(), plan.num_tiles(), 9);
  TestTensor host_out(DType::kBF16, in.q.dims());
  expect_cuda(cudaSetDevice(1));
  {
    const DeviceTensor q(in.q.view());
    const DeviceTensor k(in.k.view());
    const DeviceTensor v(in.v.view());
    const DeviceTensor out(ConstTensor(host_out.view()));
    const DeviceLut table(lut.view());
    const FineArgs args{.q = q.view(),
                        .k = k.view(),
                        .v = v.view(),
                        .q_plan = &in.q_plan,
                        .kv_plan = &in.kv_plan,
                        .lut = table.view(),
                        .out = out.view()};
    int64_t size = 0;
    Context context{.backend = BackendId::kCuda};
    context.workspace_query = &size;
    throw_if_error(fine(context, args));
    const DeviceBytes workspace(size);
    cudaStream_t stream = nullptr;
    expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect_cuda(cudaDeviceSynchronize());
    expect_cuda(cudaSetDevice(0));
    throw_if_error(fine({.backend = BackendId::kCuda,
                         .stream = stream,
                         .workspace = {.data = workspace.data(), .size_bytes = size}},
                        args));
    int current = -1;
    expect_cuda(cudaGetDevice(&current));
    EXPECT_EQ(current, 0);
    expect_cuda(cudaStreamSynchronize(stream));
    expect_cuda(cudaStreamDestroy(stream));
    out.download(host_out.view());
  }
  expect_cuda(cudaSetDevice(0));
  expect_close(host_out, test::run_fine(kReference, as_f64(in), lut.view()).out,
               fine_tolerance(in, lut.view()).out);
}

}  // namespace
}  // namespace vsa::test::gpu
