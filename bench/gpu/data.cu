#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdio>
#include <cstdlib>

#include "bench/gpu/data.h"

namespace vsa::bench {
namespace {

constexpr int kThreads = 256;

__device__ uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

__device__ float normal(uint64_t seed, uint64_t i) {
  const uint64_t bits = mix(seed * 0x100000001B3ULL + i);
  const float u = (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F;
  const float v = static_cast<float>(bits & 0xFFFFFFU) * 0x1p-24F;
  return sqrtf(-2.0F * logf(u)) * cospif(2.0F * v);
}

template <class T>
__global__ void normal_kernel(T* data, int64_t count, uint64_t seed) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) data[i] = static_cast<T>(normal(seed, static_cast<uint64_t>(i)));
}

struct TileGrid {
  int h, w, n;
};

__global__ void scores_kernel(float* scores, TileGrid tiles, bool local, uint64_t seed) {
  const int j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int i = static_cast<int>(blockIdx.y);
  if (j >= tiles.n) return;
  const int64_t at = (static_cast<int64_t>(blockIdx.z) * tiles.n + i) * tiles.n + j;
  float score = normal(seed, static_cast<uint64_t>(at));
  if (local) {
    const int df = i / (tiles.h * tiles.w) - j / (tiles.h * tiles.w);
    const int dh = i / tiles.w % tiles.h - j / tiles.w % tiles.h;
    const int dw = i % tiles.w - j % tiles.w;
    score -= 0.25F * static_cast<float>(df * df + dh * dh + dw * dw);
  }
  scores[at] = score;
}

unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

}  // namespace

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "vsa_gpu_bench: error: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

DeviceMemory::DeviceMemory(int64_t bytes) {
  require(cudaMalloc(&data_, static_cast<size_t>(bytes > 0 ? bytes : 1)), "cudaMalloc");
}

void fill_normal(void* data, DType dtype, int64_t count, uint64_t seed) {
  if (dtype == DType::kBF16) {
    normal_kernel<<<blocks_for(count), kThreads>>>(static_cast<__nv_bfloat16*>(data), count, seed);
  } else {
    normal_kernel<<<blocks_for(count), kThreads>>>(static_cast<__half*>(data), count, seed);
  }
  require(cudaGetLastError(), "fill_normal");
}

void fill_scores(float* scores, int64_t num_heads, const TilePlan& plan, bool local,
                 uint64_t seed) {
  const Grid grid = plan.video_grid();
  const TileShape tile = plan.video_tile();
  const TileGrid tiles{static_cast<int>((grid.h + tile.h - 1) / tile.h),
                       static_cast<int>((grid.w + tile.w - 1) / tile.w),
                       static_cast<int>(plan.num_tiles())};
  const auto n = static_cast<unsigned>(plan.num_tiles());
  scores_kernel<<<dim3(blocks_for(n), n, static_cast<unsigned>(num_heads)), kThreads>>>(
      scores, tiles, local, seed);
  require(cudaGetLastError(), "fill_scores");
}

}  // namespace vsa::bench
