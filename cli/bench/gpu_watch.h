// Power, clock and temperature of a GPU while something runs, by nvidia-smi. Host-only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace vsa::cli {

/// Samples ten times a second from its construction on; nothing without nvidia-smi.
class GpuWatch {
 public:
  /// @param gpu  as nvidia-smi takes it, say its PCI bus id; empty: no GPU, nothing is sampled
  explicit GpuWatch(const std::string& gpu);
  ~GpuWatch() { stop(); }
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  /// Ends the sampling. `driver`, `power_limit_w`, the reasons for a lower clock that were given,
  /// and [least, median, most] of `power_w`, `sm_mhz` and `celsius`; null without samples.
  nlohmann::ordered_json seen();

 private:
  void stop();

  int pid_ = -1;  // of nvidia-smi
  int pipe_ = -1;
  std::thread reader_;
  std::string text_;  // what it wrote; the reader's until it has ended
};

}  // namespace vsa::cli
