// What the cuda backend asks of arguments besides what every backend does. No device needed: the
// checks come before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/calls.h"
#include "tests/support/validate.h"

namespace vsa::test {
namespace {

/// A call whose tokens are bf16 with head_dim 64.
struct CudaFineCall : CallBase {
  Tensor tokens(int64_t heads, int64_t s) { return arena.tensor(DType::kBF16, {kB, heads, s, 64}); }
  FineArgs args{.q = tokens(kH, sq),
                .k = tokens(kHkv, sk),
                .v = tokens(kHkv, sk),
                .q_plan = &q_plan,
                .kv_plan = &kv_plan,
                .lut = arena.lut(lut_dims(3)),
                .scale = std::nullopt,
                .out = tokens(kH, sq),
                .lse = lse_like()};
  CudaFineCall() { context = {.backend = BackendId::kCuda}; }
  Status check() const { return validate(context, args); }
};

void expect_refused(const Status& status, StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_THAT(status.message(), testing::StartsWith(text));
}

TEST(ValidateCuda, TakesAGoodCall) {
  const Status status = CudaFineCall().check();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ValidateCuda, F32IsUnsupported) {
  FineCall call;
  call.context.backend = BackendId::kCuda;
  expect_refused(validate(call.context, call.args), StatusCode::kUnsupported,
                 "[fine] q: expected bf16|f16 [B,H,32,D] on the cuda backend, got f32 [2,4,32,8]; "
                 "convert it, or take the cpu backend");
}

/// T20, T35: the supported set is named.
TEST(ValidateCuda, T20_T35_HeadDims) {
  for (const int64_t head_dim : {32, 80, 96, 160, 256}) {
    CudaFineCall call;
    call.args.q = call.arena.tensor(DType::kBF16, {call.kB, call.kH, call.sq, head_dim});
    expect_refused(call.check(), StatusCode::kUnsupported,
                   "[fine] q: expected a head_dim of 64 or 128 on the cuda backend, got " +
                       std::to_string(head_dim) + "; the cpu backend takes multiples of 8");
  }
}

TEST(ValidateCuda, RowsAtMultiplesOf16Bytes) {
  CudaFineCall call;
  call.args.k.data = static_cast<const uint16_t*>(call.args.k.data) + 4;
  call.args.k.shape[0] = call.args.q.shape[0];
  expect_refused(call.check(), StatusCode::kUnsupported,
                 "[fine] k: expected rows at multiples of 16 bytes on the cuda backend, got "
                 "address 0x");
  CudaFineCall strided;
  strided.args.v.stride[2] = 68;
  expect_refused(strided.check(), StatusCode::kUnsupported,
                 "[fine] v: expected rows at multiples of 16 bytes on the cuda backend");
}

/// A residual in f32 beside branches in 16 bits; any multiple of 8 as head_dim.
struct CudaResidualNormCall : CallBase {
  static constexpr int64_t kHeadDim = 24;
  Tensor like_x(DType dtype, int64_t head_dim = kHeadDim) {
    return arena.tensor(dtype, {kB, kH, sq, head_dim});
  }
  Tensor modulation() { return arena.tensor(DType::kF32, {kB, kH, 1, kHeadDim}); }
  ResidualNormArgs args{.x = like_x(DType::kF32),
                        .y = like_x(DType::kBF16),
                        .gate = modulation(),
                        .scale = modulation(),
                        .shift = modulation(),
                        .out = like_x(DType::kBF16)};
  CudaResidualNormCall() { context = {.backend = BackendId::kCuda}; }
  Status check() const { return validate(context, args); }
};

TEST(ValidateCuda, ResidualNormTakesAnF32Residual) {
  CudaResidualNormCall call;
  Status status = call.check();
  EXPECT_TRUE(status.ok()) << status.message();
  call.args.x = call.like_x(DType::kBF16);
  status = call.check();
  EXPECT_TRUE(status.ok()) << status.message();
  call.args.x = call.like_x(DType::kF64);
  expect_refused(call.check(), StatusCode::kUnsupported,
                 "[residual_norm] x: expected f32|bf16|f16 [B,H,S,D] on the cuda backend, got f64");
  CudaResidualNormCall branch;
  branch.args.y = branch.like_x(DType::kF32);
  expect_refused(branch.check(), StatusCode::kUnsupported,
                 "[residual_norm] y: expected bf16|f16 [2,4,32,24] on the cuda backend, got f32");
}

TEST(ValidateCuda, ResidualNormTakesMultiplesOf8) {
  for (const int64_t head_dim : {12, 136}) {
    CudaResidualNormCall call;
    call.args.x = call.like_x(DType::kF32, head_dim);
    expect_refused(call.check(), StatusCode::kUnsupported,
                   "[residual_norm] x: expected a head_dim that is a multiple of 8 up to 128 on "
                   "the cuda backend, got " +
                       std::to_string(head_dim));
  }
}

/// The kernel reads f32 tensors as vectors, too.
TEST(ValidateCuda, ResidualNormNeedsF32RowsAtMultiplesOf16Bytes) {
  const auto misaligned = [](const std::string& argument, auto get) {
    CudaResidualNormCall call;
    get(call.args).stride[0] += 2;
    expect_refused(call.check(), StatusCode::kUnsupported,
                   "[residual_norm] " + argument +
                       ": expected rows at multiples of 16 bytes on the cuda backend, got");
  };
  misaligned(
      "x", [](auto& args) -> auto& { return args.x; });
  misaligned(
      "gate", [](auto& args) -> auto& { return args.gate; });
  misaligned(
      "scale", [](auto& args) -> auto& { return args.scale; });
  misaligned(
      "shift", [](auto& args) -> auto& { return args.shift; });
}

/// T24, T32, T34: the extents of a table are checked; what it holds is the device's.
TEST(ValidateCuda, T24_T34_ExtentsOfTables) {
  CudaFineCall call;
  call.args.lut.dims.num_q_tiles += 1;
  expect_refused(call.check(), StatusCode::kInvalidArgument,
                 "[fine] lut: expected int32 [2,4,4,1], got int32 [2,4,5,3]");
  CudaFineCall wild;
  const_cast<int32_t*>(wild.args.lut.count)[3] = -9;
  EXPECT_TRUE(wild.check().ok());
}

TEST(ValidateSelect, MoreKvTilesThanAnIndexNames) {
  SelectCall call;
  call.args.coarse_scores.shape = {1, 1, 1, int64_t{1} << 31};
  expect_refused(validate(call.context, call.args), StatusCode::kInvalidArgument,
                 "[select] coarse_scores: expected at most 2^31 - 1 kv tiles, as indices are "
                 "int32, got 2147483648");
}

}  // namespace
}  // namespace vsa::test
