// Times the CUDA backend: each stage, the schedule, the fine kernel and the whole operator. Checks
// a case against fp64 before it is timed. One JSON line a figure on stdout, a table on stderr.
//
// usage: vsa_gpu_bench [regular expression that case names match] [repeats]
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <regex>
#include <vector>

#include "bench/gpu/check.h"
#include "bench/gpu/data.h"
#include "src/cuda/device.h"
#include "src/cuda/fine.h"
#include "vsa/vsa.h"

namespace vsa::bench {
namespace {

struct BenchCase {
  std::string name;
  Grid grid;
  TileShape tile;
  int64_t num_heads, head_dim;
  double kept;
  bool local;
};

std::vector<BenchCase> bench_cases() {
  const Grid aligned{8, 64, 64};  // 32768 tokens
  std::vector<BenchCase> all;
  const auto add = [&](const std::string& shape, Grid grid, TileShape tile, int64_t heads,
                       int64_t dim, std::initializer_list<double> kepts) {
    for (const double kept : kepts) {
      for (const bool local : {false, true}) {
        all.push_back({fmt::format("{}/kept{:g}/{}", shape, 100.0 * kept, local ? "local" : "rand"),
                       grid, tile, heads, dim, kept, local});
      }
    }
  };
  add("s32768_h12_d128_t64", aligned, {4, 4, 4}, 12, 128, {0.5, 0.3, 0.125, 0.05});
  add("s32768_h12_d128_t128", aligned, {2, 8, 8}, 12, 128, {0.3, 0.125});
  add("s32768_h12_d128_t256", aligned, {4, 8, 8}, 12, 128, {0.3});
  add("s32768_h12_d64_t64", aligned, {4, 4, 4}, 12, 64, {0.125});
  add("wan480_h12_d128_t64", {21, 30, 52}, {4, 4, 4}, 12, 128, {0.125});
  add("wan720_h40_d128_t64", {21, 45, 80}, {4, 4, 4}, 40, 128, {0.125});
  return all;
}

/// Median and interquartile range of the times of a call, each with a cold L2.
class Timer {
 public:
  explicit Timer(int repeats) : repeats_(repeats), flush_(kFlushBytes) {
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    require(cudaEventCreate(&start_), "cudaEventCreate");
    require(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  cudaStream_t stream() const { return stream_; }

  struct Times {
    double median_ms, iqr_ms;
  };
  template <class Call>
  Times time(const Call& call) {
    std::vector<double> ms;
    for (int i = -3; i < repeats_; ++i) {
      require(cudaMemsetAsync(flush_.data(), i, kFlushBytes, stream_), "cudaMemsetAsync");
      require(cudaEventRecord(start_, stream_), "cudaEventRecord");
      throw_if_error(call());
      require(cudaEventRecord(stop_, stream_), "cudaEventRecord");
      require(cudaEventSynchronize(stop_), "a call");
      float elapsed = 0.0F;
      require(cudaEventElapsedTime(&elapsed, start_, stop_), "cudaEventElapsedTime");
      if (i >= 0) ms.push_back(static_cast<double>(elapsed));
    }
    std::ranges::sort(ms);
    const size_t n = ms.size();
    return {ms[n / 2], ms[n * 3 / 4] - ms[n / 4]};
  }

 private:
  static constexpr int64_t kFlushBytes = int64_t{192} << 20;  // three times the L2
  int repeats_;
  DeviceMemory flush_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

/// Runs a call with a workspace made for it.
class WithWorkspace {
 public:
  WithWorkspace(std::function<Status(const Context&)> call, cudaStream_t stream)
      : call_(std::move(call)) {
    int64_t size = 0;
    Context query{.backend = BackendId::kCuda};
    query.workspace_query = &size;
    throw_if_error(call_(query));
    memory_.emplace(size);
    context_ = {
        .backend = BackendId::kCuda, .stream = stream, .workspace = {memory_->data(), size}};
  }
  Status operator()() const { return call_(context_); }
  double megabytes() const { return static_cast<double>(context_.workspace.size_bytes) * 1e-6; }

 private:
  std::function<Status(const Context&)> call_;
  std::optional<DeviceMemory> memory_;
  Context context_;
};

template <class T>
std::vector<T> to_host(const void* from, int64_t count) {
  std::vector<T> host(static_cast<size_t>(count));
  require(cudaMemcpy(host.data(), from, host.size() * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
  return host;
}

void run_case(const BenchCase& c, Timer& timer, int num_sms, bool& all_right) {
  const TilePlan plan = TilePlan::grid(c.grid, c.tile).value();
  const Dims dims{1, c.num_heads, plan.seq_len(), c.head_dim};
  const int64_t elements = c.num_heads * plan.seq_len() * c.head_dim;
  const int64_t n = plan.num_tiles();
  const int64_t topk = topk_from_sparsity(1.0 - c.kept, n).value();
  const DeviceMemory q_mem(elements * 2), k_mem(elements * 2), v_mem(elements * 2),
      gate_mem(elements * 2), out_mem(elements * 2);
  uint64_t seed = 1;
  for (const DeviceMemory* m : {&q_mem, &k_mem, &v_mem, &gate_mem}) {
    fill_normal(m->data(), DType::kBF16, elements, seed++);
  }
  const auto tensor = [&](const DeviceMemory& m) {
    return Tensor::bshd(m.data(), DType::kBF16, dims);
  };
  const Tensor q = tensor(q_mem), k = tensor(k_mem), v = tensor(v_mem), gate = tensor(gate_mem),
               out = tensor(out_mem);

  // The list: top-k of made-up scores, by the library's own select.
  const DeviceMemory scores_mem(c.num_heads * n * n * 4);
  fill_scores(static_cast<float*>(scores_mem.data()), c.num_heads, plan, c.local, 99);
  const Tensor scores = Tensor::bhsd(scores_mem.data(), DType::kF32, {1, c.num_heads, n, n});
  const LutDims lut_dims{1, c.num_heads, n, topk};
  const DeviceMemory index_mem(c.num_heads * n * topk * 4), count_mem(c.num_heads * n * 4);
  const Lut lut{static_cast<int32_t*>(index_mem.data()), static_cast<int32_t*>(count_mem.data()),
                lut_dims};
  require(cudaDeviceSynchronize(), "inputs");
  const WithWorkspace select_call(
      [&](const Context& x) {
        return select(x, {.coarse_scores = scores, .options = {.topk = topk}, .lut = lut});
      },
      timer.stream());
  throw_if_error(select_call());
  require(cudaStreamSynchronize(timer.stream()), "select");

  HostProblem host{.dtype = DType::kBF16,
                   .num_heads = c.num_heads,
                   .head_dim = c.head_dim,
                   .plan = &plan,
                   .q = to_host<uint16_t>(q.data, elements),
                   .k = to_host<uint16_t>(k.data, elements),
                   .v = to_host<uint16_t>(v.data, elements),
                   .gate = to_host<uint16_t>(gate.data, elements),
                   .index = to_host<int32_t>(lut.index, c.num_heads * n * topk),
                   .count = to_host<int32_t>(lut.count, c.num_heads * n),
                   .pitch = topk};
  const double flops = 4.0 * static_cast<double>(c.head_dim) * kept_pairs(host);
  const double shared = shared_share(host);

  // error: empty for what is timed only; the tests are what holds it to the reference.
  const auto report = [&](const char* what, const Timer::Times& t, std::optional<double> error,
                          double mb) {
    const bool counts = std::string_view(what).starts_with("fine") ||
                        std::string_view(what).starts_with("operator");
    const double tflops = counts ? flops / t.median_ms * 1e-9 : 0.0;
    const bool right = !error || *error < 0.01;  // false for NaN; two bf16 roundings give 0.003
    all_right = all_right && right;
    const std::string shown = error ? fmt::format("{:.3g}", *error) : "null";
    fmt::print(
        "{{\"case\":\"{}\",\"what\":\"{}\",\"median_ms\":{:.4f},\"iqr_ms\":{:.4f},"
        "\"tflops\":{:.1f},\"relative_l2\":{},\"right\":{},\"shared\":{:.3f},"
        "\"workspace_mb\":{:.1f}}}\n",
        c.name, what, t.median_ms, t.iqr_ms, tflops, shown,
        error ? (right ? "true" : "false") : "null", shared, mb);
    fmt::print(stderr, "{:<34} {:<20} {:8.3f} ms {:7.1f} TFLOP/s  error {}{}\n", c.name, what,
               t.median_ms, tflops, error ? shown : "not checked", right ? "" : "  WRONG");
    std::fflush(stdout);
  };
  const auto checked = [&](const WithWorkspace& call, bool whole) {
    require(cudaMemset(out.data, 0xFF, static_cast<size_t>(elements * 2)), "cudaMemset");
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    throw_if_error(call());
    require(cudaStreamSynchronize(timer.stream()), "a call");
    return sampled_error(host, to_host<uint16_t>(out.data, elements), whole);
  };

  const FineArgs fine_args{.q = q,
                           .k = k,
                           .v = v,
                           .q_plan = &plan,
                           .kv_plan = &plan,
                           .lut = lut,
                           .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim)),
                           .out = out};
  const WithWorkspace fine_call([&](const Context& x) { return fine(x, fine_args); },
                                timer.stream());
  const double fine_error = checked(fine_call, false);
  report("fine", timer.time(fine_call), fine_error, fine_call.megabytes());

  // The kernel and the schedule apart: on tables that the last call left in a workspace of its own.
  Context parts{.backend = BackendId::kCuda};
  int64_t parts_bytes = 0;
  parts.workspace_query = &parts_bytes;
  throw_if_error(fine(parts, fine_args));
  const DeviceMemory parts_mem(parts_bytes);
  parts = {.backend = BackendId::kCuda,
           .stream = timer.stream(),
           .workspace = {parts_mem.data(), parts_bytes}};
  cuda::Carver carver(parts);
  const cuda::PlanTables tables("bench", carver, &plan);
  const cuda::Schedule schedule(carver, tables, lut_dims, c.head_dim);
  throw_if_error(tables.build(timer.stream()));
  const auto build = [&] { return schedule.build("bench", tables, lut, timer.stream()); };
  report("schedule", timer.time(build), {}, 0.0);
  report("fine_kernel", timer.time([&] {
    require(cudaMemsetAsync(schedule.num_taken(), 0, sizeof(int32_t), timer.stream()), "the queue");
    return cuda::run_fine_stage({"bench", num_sms, timer.stream()}, fine_args, tables, schedule,
                                {});
  }),
         fine_error, 0.0);
  report("select", timer.time(select_call), {}, select_call.megabytes());

  const auto operator_with = [&](const ConstLut& given) {
    return WithWorkspace(
        [&, given](const Context& x) {
          return attention_forward(x, {.q = q,
                                       .k = k,
                                       .v = v,
                                       .gate_coarse = Gate::tensor(gate),
                                       .q_plan = &plan,
                                       .kv_plan = &plan,
                                       .select = {.topk = topk},
                                       .lut = given,
                                       .out = out});
        },
        timer.stream());
  };
  // Random q and k select random tiles, whatever the list is: the operator is timed once a shape.
  // With the list given it does the same work but for select, on local lists too.
  const WithWorkspace with_list = operator_with(lut);
  const double whole_error = checked(with_list, true);
  report("operator_list", timer.time(with_list), whole_error, with_list.megabytes());
  if (c.local) return;
  const WithWorkspace whole = operator_with({});
  report("operator", timer.time(whole), whole_error, whole.megabytes());

  const DeviceMemory pooled_mem(c.num_heads * n * c.head_dim * 4 * 2);
  const Tensor pooled =
      Tensor::bhsd(pooled_mem.data(), DType::kF32, {1, c.num_heads, n, c.head_dim});
  const Tensor coarse_out =
      Tensor::bhsd(static_cast<float*>(pooled_mem.data()) + c.num_heads * n * c.head_dim,
                   DType::kF32, {1, c.num_heads, n, c.head_dim});
  const WithWorkspace pool_call(
      [&](const Context& x) { return pool(x, {.x = q, .plan = &plan, .pooled = pooled}); },
      timer.stream());
  report("pool_one", timer.time(pool_call), {}, pool_call.megabytes());
  const WithWorkspace coarse_call(
      [&](const Context& x) {
        return coarse(x, {.q_pooled = pooled,
                          .k_pooled = pooled,
                          .v_pooled = pooled,
                          .kv_plan = &plan,
                          .coarse_scores = scores,
                          .coarse_out = coarse_out});
      },
      timer.stream());
  report("coarse", timer.time(coarse_call), {}, coarse_call.megabytes());
}

int refuse(const std::string& why) {
  fmt::print(stderr, "vsa_gpu_bench: error: {}\n", why);
  return 2;
}

int run(int argc, char** argv) {
  const std::string pattern = argc > 1 ? argv[1] : "";
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 20;
  if (repeats < 1) return refuse(fmt::format("repeats: expected at least 1, got {}", argv[2]));
  std::vector<BenchCase> cases = bench_cases();
  std::string names;
  for (const BenchCase& c : cases) names += "\n  " + c.name;
  try {
    const std::regex filter(pattern);
    std::erase_if(cases, [&](const BenchCase& c) { return !std::regex_search(c.name, filter); });
  } catch (const std::regex_error&) {
    return refuse(fmt::format("cases: expected a regular expression, got {}", pattern));
  }
  if (cases.empty()) {
    return refuse(fmt::format("cases: no name matches {}; there are{}", pattern, names));
  }
  const BackendInfo info = cuda::info();
  if (!info.available) {
    fmt::print(stderr, "vsa_gpu_bench: error: {}\n", info.detail);
    return 3;
  }
  int num_sms = 0;
  int driver = 0;
  require(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, 0), "attribute");
  require(cudaDriverGetVersion(&driver), "driver");
  fmt::print("{{\"device\":\"{}\",\"multiprocessors\":{},\"driver\":{},\"repeats\":{}}}\n",
             info.detail, num_sms, driver, repeats);
  Timer timer(repeats);
  bool all_right = true;
  for (const BenchCase& c : cases) run_case(c, timer, num_sms, all_right);
  return all_right ? 0 : 1;
}

}  // namespace
}  // namespace vsa::bench

int main(int argc, char** argv) {
  try {
    return vsa::bench::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "vsa_gpu_bench: error: {}\n", e.what());
    return 1;
  }
}
