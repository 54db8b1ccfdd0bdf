// Speed of the CPU backend as ratios of one run: its dense fine stage against oneDNN's fp32 GEMM,
// and the sparse operator against the dense one, forward and with backward.
//
//   vsa_cpu_bench [repeats, default 9] [kept tiles, default 12.5 %]
//
// Case: grid 8x32x32 (S = 8192), tile 4x4x4, H = 4, D = 128, f32, [B, S, H, D]. The contestants
// run interleaved in one process, so that all see the same load of the machine; figures are
// medians. On a machine that others use too, wall time also measures them: there the CPU time of
// all threads together is the better figure, with OMP_WAIT_POLICY=passive so that waiting does not
// count.
#include <dnnl.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "vsa/vsa.h"

namespace {

constexpr vsa::Dims kDims{.batch = 1, .num_heads = 4, .seq_len = 8192, .head_dim = 128};
constexpr int64_t kGemmSize = 3072;

using Floats = std::vector<float>;

Floats normal(int64_t n, uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw;
  Floats x(static_cast<size_t>(n));
  for (float& v : x) v = draw(bits);
  return x;
}

int64_t num_elements(const vsa::Dims& d) { return d.batch * d.num_heads * d.seq_len * d.head_dim; }

/// Inputs and outputs of the operator, and the calls that are timed.
class Case {
 public:
  explicit Case(int64_t topk) : lut_(lut_dims(topk)) {
    args_.q = in(0);
    args_.k = in(1);
    args_.v = in(2);
    args_.gate_coarse = vsa::Gate::tensor(in(3));
    args_.q_plan = args_.kv_plan = &plan_;
    args_.select.topk = topk;
    args_.out = view(out_, kDims);
    args_.lse = view(lse_, lse_dims());
    args_.fine_out = view(fine_out_, kDims);
    args_.lut_out = lut_.view();
  }

  /// The whole operator: gate and selection included.
  void forward() const { vsa::throw_if_error(vsa::attention_forward({}, args_)); }

  /// As for inference: nothing is kept for backward.
  void inference() const {
    vsa::AttentionArgs args = args_;
    args.lse = args.fine_out = {};
    args.lut_out = {};
    vsa::throw_if_error(vsa::attention_forward({}, args));
  }

  /// The fine stage alone, with the selection of the last forward().
  void fine() {
    vsa::throw_if_error(vsa::fine({}, {.q = args_.q,
                                       .k = args_.k,
                                       .v = args_.v,
                                       .q_plan = &plan_,
                                       .kv_plan = &plan_,
                                       .lut = lut_.view(),
                                       .scale = {},
                                       .out = args_.out,
                                       .lse = {}}));
  }

  void backward() {
    vsa::AttentionBackwardArgs args;
    args.q = args_.q;
    args.k = args_.k;
    args.v = args_.v;
    args.gate_coarse = args_.gate_coarse;
    args.q_plan = args.kv_plan = &plan_;
    args.lut = lut_.view();
    args.lse = args_.lse;
    args.fine_out = args_.fine_out;
    args.dout = in(4);
    args.dq = view(dq_, kDims);
    args.dk = view(dk_, kDims);
    args.dv = view(dv_, kDims);
    args.dgate_coarse = view(dgate_, kDims);
    vsa::throw_if_error(vsa::attention_backward({}, args));
  }

  const vsa::TilePlan& plan() const { return plan_; }

 private:
  static vsa::Dims lse_dims() {
    vsa::Dims d = kDims;
    d.head_dim = 1;
    return d;
  }
  vsa::LutDims lut_dims(int64_t topk) const {
    return {.batch = kDims.batch,
            .num_heads = kDims.num_heads,
            .num_q_tiles = plan_.num_tiles(),
            .pitch = topk};
  }
  static vsa::ConstTensor in(size_t i) {
    static const std::vector<Floats> inputs = [] {
      std::vector<Floats> all;
      for (uint32_t seed = 0; seed < 5; ++seed) all.push_back(normal(num_elements(kDims), seed));
      return all;
    }();
    return vsa::ConstTensor::bshd(inputs[i].data(), vsa::DType::kF32, kDims);
  }
  static vsa::Tensor view(Floats& memory, const vsa::Dims& dims) {
    memory.resize(static_cast<size_t>(num_elements(dims)));
    return vsa::Tensor::bshd(memory.data(), vsa::DType::kF32, dims);
  }

  vsa::TilePlan plan_ = vsa::TilePlan::grid({8, 32, 32}, {4, 4, 4}).value();
  vsa::LutBuffer lut_;
  vsa::AttentionArgs args_;
  Floats out_, lse_, fine_out_, dq_, dk_, dv_, dgate_;
};

/// Seconds by the clock on the wall, and those of all threads of the process.
struct Seconds {
  double wall = 0.0;
  double cpu = 0.0;
};

Seconds now() {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {.wall = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
                      .count(),
          .cpu = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9};
}

struct Contestant {
  std::string name;
  double flops;
  std::function<void()> run;
  std::vector<double> wall = {}, cpu = {};

  void take_turn() {
    const Seconds start = now();
    run();
    const Seconds end = now();
    wall.push_back(end.wall - start.wall);
    cpu.push_back(end.cpu - start.cpu);
  }
};

double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
}

/// The three ratios that the targets are about, by one kind of time.
void print_ratios(const char* kind, const std::vector<Contestant>& c,
                  std::vector<double> Contestant::*times) {
  const auto time = [&](size_t i) { return median(c[i].*times); };
  const auto rate = [&](size_t i) { return c[i].flops / time(i); };
  fmt::print(
      "by {} time: dense fine / sgemm rate {:.3f}, dense fine / sparse operator {:.2f}, "
      "dense / sparse forward + backward {:.2f}\n",
      kind, rate(1) / rate(0), time(1) / time(2), (time(3) + time(4)) / (time(5) + time(6)));
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 9;
  const int64_t num_tiles = kDims.seq_len / 64;
  const int64_t topk = argc > 2 ? std::atoll(argv[2]) : num_tiles / 8;

  const Floats a = normal(kGemmSize * kGemmSize, 1);
  const Floats b = normal(kGemmSize * kGemmSize, 2);
  Floats c(a.size());
  const auto gemm = [&] {
    if (dnnl_sgemm('N', 'N', kGemmSize, kGemmSize, kGemmSize, 1.0F, a.data(), kGemmSize, b.data(),
                   kGemmSize, 0.0F, c.data(), kGemmSize) != dnnl_success) {
      std::abort();
    }
  };
  Case dense(num_tiles);
  Case sparse(topk);
  dense.forward();  // makes the tables that fine and backward read
  sparse.forward();

  // 4 D FLOP a pair of tokens forward, 14 D backward (see fine_backward).
  const double size = static_cast<double>(kGemmSize);
  const double pairs = static_cast<double>(kDims.num_heads * kDims.seq_len * kDims.seq_len);
  const double forward = 4.0 * static_cast<double>(kDims.head_dim) * pairs;
  const double kept = static_cast<double>(topk) / static_cast<double>(num_tiles);
  std::vector<Contestant> contestants;
  contestants.push_back({"oneDNN sgemm", 2.0 * size * size * size, gemm});
  contestants.push_back({"dense fine", forward, [&] { dense.fine(); }});
  contestants.push_back({"sparse operator", forward * kept, [&] { sparse.inference(); }});
  contestants.push_back({"dense forward", forward, [&] { dense.forward(); }});
  contestants.push_back({"dense backward", 3.5 * forward, [&] { dense.backward(); }});
  contestants.push_back({"sparse forward", forward * kept, [&] { sparse.forward(); }});
  contestants.push_back({"sparse backward", 3.5 * forward * kept, [&] { sparse.backward(); }});

  for (Contestant& x : contestants) x.run();  // warms up
  for (int i = 0; i < repeats; ++i) {
    for (Contestant& x : contestants) x.take_turn();
  }

  for (const vsa::BackendInfo& backend : vsa::backends()) {
    if (backend.id == vsa::BackendId::kCpu) fmt::print("cpu: {}", backend.detail);
  }
  fmt::print(", {} threads, medians of {}\n", omp_get_max_threads(), repeats);
  for (const Contestant& x : contestants) {
    const auto [low, high] = std::ranges::minmax(x.wall);
    fmt::print("{:16} {:8.2f} ms wall ({:.2f} to {:.2f}) {:6.1f} GFLOP/s, {:8.2f} ms cpu\n", x.name,
               median(x.wall) * 1e3, low * 1e3, high * 1e3, x.flops / median(x.wall) * 1e-9,
               median(x.cpu) * 1e3);
  }
  print_ratios("wall", contestants, &Contestant::wall);
  print_ratios("cpu", contestants, &Contestant::cpu);
  return 0;
}
