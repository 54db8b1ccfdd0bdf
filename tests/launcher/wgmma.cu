// Two wgmma into the same accumulators. With SERIALISED one of these is also multiplied between the
// two, while the first may still be running: ptxas then makes every wgmma of the kernel wait for
// its own end.
__global__ void two_products(float* out, unsigned long long a, unsigned long long b) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;");
  for (int i = 0; i < 2; ++i) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, "
        "0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b));
#ifdef SERIALISED
    d[0] *= 2;
#endif
  }
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]));
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
