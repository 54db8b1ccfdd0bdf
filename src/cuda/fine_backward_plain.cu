// The fine stage's gradients in plain fp32, one warp a row: right and slow.
#include "src/cuda/fine_backward.h"
#include "src/cuda/half_type.h"
#include "src/cuda/launch.h"
#include "src/cuda/rows.h"
#include "src/cuda/tile_positions.h"

namespace vsa::cuda {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kAll = ~0U;

struct PlainParams {
  ConstRows q, k, v, dout, lse;
  const float* delta;
  const float *dq_pooled, *dk_pooled, *dv_pooled;
  Rows dq, dk, dv;
  ConstLut lut;
  LutT lut_t;
  PlanTable q_plan, kv_plan;
  float scale;
  int32_t num_heads, num_kv_heads, seq_len;
};

/// A row's elements lane, lane + 32, ...
template <class T, int kN>
struct Lanes {
  float x[kN] = {};
  __device__ static Lanes load(const ConstRows& rows, int b, int h, int64_t s) {
    const T* from =
        static_cast<const T*>(rows.data) + b * rows.batch + h * rows.head + s * rows.seq;
    Lanes r;
    for (int i = 0; i < kN; ++i) r.x[i] = static_cast<float>(from[threadIdx.x % 32 + 32 * i]);
    return r;
  }
  __device__ void store(const Rows& rows, int b, int h, int64_t s) const {
    T* to = static_cast<T*>(rows.data) + b * rows.batch + h * rows.head + s * rows.seq;
    for (int i = 0; i < kN; ++i) to[threadIdx.x % 32 + 32 * i] = static_cast<T>(x[i]);
  }
  __device__ void add_share(const float* pooled, int64_t row, int len) {
    if (pooled == nullptr) return;
    for (int i = 0; i < kN; ++i) {
      x[i] += pooled[row * 32 * kN + threadIdx.x % 32 + 32 * i] / static_cast<float>(len);
    }
  }
  __device__ void add(float factor, const Lanes& y) {
    for (int i = 0; i < kN; ++i) x[i] = fmaf(factor, y.x[i], x[i]);
  }
  __device__ float dot(const Lanes& y) const {
    float sum = 0.0F;
    for (int i = 0; i < kN; ++i) sum = fmaf(x[i], y.x[i], sum);
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAll, sum, mask);
    return sum;
  }
};

__device__ float lse_of(const PlainParams& p, int b, int h, int64_t s) {
  return static_cast<const float*>(p.lse.data)[b * p.lse.batch + h * p.lse.head + s * p.lse.seq];
}

template <class T, int kN>
__global__ void __launch_bounds__(kThreads, 2)
    plain_dq_kernel(const __grid_constant__ PlainParams p) {
  __shared__ int32_t positions[kMaxTileRows], keys[kMaxTileRows];
  const int tile = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
  const int kv = h / (p.num_heads / p.num_kv_heads);
  const int64_t head = int64_t{b} * p.num_heads + h;
  const int rows = tile_positions(p.q_plan, tile, positions);
  const int len = p.q_plan.tile_len[tile];
  const int64_t lut_row = head * p.lut.dims.num_q_tiles + tile;
  const int count = clamp_to(p.lut.count[lut_row], static_cast<int32_t>(p.lut.dims.pitch));
  for (int r0 = 0; r0 < rows; r0 += kThreads / 32) {
    const int r = r0 + threadIdx.x / 32;
    Lanes<T, kN> q, dout, dq;
    float lse = 0.0F, delta = 0.0F;
    if (r < len) {
      q = Lanes<T, kN>::load(p.q, b, h, positions[r]);
      dout = Lanes<T, kN>::load(p.dout, b, h, positions[r]);
      lse = lse_of(p, b, h, positions[r]);
      delta = p.delta[head * p.seq_len + positions[r]];
    }
    for (int e = 0; e < count; ++e) {
      const int kv_tile = p.lut.index[lut_row * p.lut.dims.pitch + e];
      if (kv_tile < 0 || kv_tile >= p.kv_plan.shape.num_tiles) continue;
      __syncthreads();
      tile_positions(p.kv_plan, kv_tile, keys);
      if (r >= len) continue;
      for (int j = 0; j < p.kv_plan.tile_len[kv_tile]; ++j) {
        const auto k = Lanes<T, kN>::load(p.k, b, kv, keys[j]);
        const float weight = expf(p.scale * q.dot(k) - lse);
        const float dp = dout.dot(Lanes<T, kN>::load(p.v, b, kv, keys[j]));
        dq.add(p.scale * weight * (dp - delta), k);
      }
    }
    if (r < len) dq.add_share(p.dq_pooled, head * p.q_plan.shape.num_tiles + tile, len);
    if (r < rows) dq.store(p.dq, b, h, positions[r]);
  }
}

template <class T, int kN>
__global__ void __launch_bounds__(kThreads, 2)
    plain_dkv_kernel(const __grid_constant__ PlainParams p) {
  __shared__ int32_t positions[kMaxTileRows], queries[kMaxTileRows];
  const int tile = blockIdx.x, kv = blockIdx.y, b = blockIdx.z;
  const int group_size = p.num_heads / p.num_kv_heads;
  const int rows = tile_positions(p.kv_plan, tile, positions);
  const int len = p.kv_plan.tile_len[tile];
  for (int r0 = 0; r0 < rows; r0 += kThreads / 32) {
    const int r = r0 + threadIdx.x / 32;
    Lanes<T, kN> k, v, dk, dv;
    if (r < len) {
      k = Lanes<T, kN>::load(p.k, b, kv, positions[r]);
      v = Lanes<T, kN>::load(p.v, b, kv, positions[r]);
    }
    for (int h = kv * group_size; h < (kv + 1) * group_size; ++h) {
      const int64_t head = int64_t{b} * p.num_heads + h;
      const int64_t list = head * p.kv_plan.shape.num_tiles + tile;
      for (int64_t e = p.lut_t.offset[list]; e < p.lut_t.offset[list + 1]; ++e) {
        const int q_tile = p.lut_t.index[e];
        __syncthreads();
        tile_positions(p.q_plan, q_tile, queries);
        if (r >= len) continue;
        for (int i = 0; i < p.q_plan.tile_len[q_tile]; ++i) {
          const float lse = lse_of(p, b, h, queries[i]);
          const auto q = Lanes<T, kN>::load(p.q, b, h, queries[i]);
          const auto dout = Lanes<T, kN>::load(p.dout, b, h, queries[i]);
          const float weight = expf(p.scale * q.dot(k) - lse);
          const float ds = weight * (dout.dot(v) - p.delta[head * p.seq_len + queries[i]]);
          dv.add(weight, dout);
          dk.add(p.scale * ds, q);
        }
      }
    }
    const int64_t kv_row = (int64_t{b} * p.num_kv_heads + kv) * p.kv_plan.shape.num_tiles + tile;
    if (r < len) dk.add_share(p.dk_pooled, kv_row, len);
    if (r < len) dv.add_share(p.dv_pooled, kv_row, len);
    if (r < rows) dk.store(p.dk, b, kv, positions[r]);
    if (r < rows) dv.store(p.dv, b, kv, positions[r]);
  }
}

template <class T, int kN>
Status run(std::string_view operation, const PlainParams& p, int64_t batch, cudaStream_t stream) {
  const auto shape = [&](const PlanTable& plan, int heads) {
    return LaunchShape{.grid = dim3(static_cast<unsigned>(plan.shape.num_tiles),
                                    static_cast<unsigned>(heads), static_cast<unsigned>(batch)),
                       .block = dim3(kThreads),
                       .stream = stream};
  };
  VSA_TRY(launch(operation, plain_dq_kernel<T, kN>, shape(p.q_plan, p.num_heads), p));
  return launch(operation, plain_dkv_kernel<T, kN>, shape(p.kv_plan, p.num_kv_heads), p);
}

}  // namespace

Status run_fine_backward(std::string_view operation, const FineBackwardInput& input,
                         const PlanTables& plans, int /*num_sms*/, cudaStream_t stream) {
  const PlainParams p{.q = rows_of(input.q),
                      .k = rows_of(input.k),
                      .v = rows_of(input.v),
                      .dout = rows_of(input.dout),
                      .lse = rows_of(input.lse),
                      .delta = input.delta,
                      .dq_pooled = input.dq_pooled,
                      .dk_pooled = input.dk_pooled,
                      .dv_pooled = input.dv_pooled,
                      .dq = rows_of(input.dq),
                      .dk = rows_of(input.dk),
                      .dv = rows_of(input.dv),
                      .lut = input.lut,
                      .lut_t = input.lut_t,
                      .q_plan = plans.q(),
                      .kv_plan = plans.kv(),
                      .scale = input.scale,
                      .num_heads = static_cast<int32_t>(input.q.shape[1]),
                      .num_kv_heads = static_cast<int32_t>(input.k.shape[1]),
                      .seq_len = static_cast<int32_t>(input.q.shape[2])};
  const int64_t batch = input.q.shape[0];
  const bool wide = input.q.shape[3] == 128;
  if (input.q.dtype == DType::kBF16) {
    return wide ? run<__nv_bfloat16, 4>(operation, p, batch, stream)
                : run<__nv_bfloat16, 2>(operation, p, batch, stream);
  }
  return wide ? run<__half, 4>(operation, p, batch, stream)
              : run<__half, 2>(operation, p, batch, stream);
}

}  // namespace vsa::cuda
