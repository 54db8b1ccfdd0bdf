// Time into the fields of a report. Host-only.
#pragma once

#include <chrono>

namespace vsa::runtime {

/// Adds the time until it is destroyed to a field of the report, in milliseconds.
class Timer {
 public:
  explicit Timer(double& ms) : ms_(ms) {}
  ~Timer() {
    const auto passed = std::chrono::steady_clock::now() - start_;
    ms_ += std::chrono::duration<double, std::milli>(passed).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& ms_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace vsa::runtime
