// `vsa bench` on a device that it does not know: what it times is the time of the device, of the
// calls alone, each behind a fill that empties the cache.
#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/common/command.h"
#include "tests/device_backend/device.h"
#include "tests/unit/runtime/io/files.h"

namespace vsa::test {
namespace {

constexpr int kRepeats = 4, kWarmUp = 3;

/// The rows of that command line, which is one of `vsa bench --json`.
std::vector<nlohmann::json> bench(const std::string& options) {
  CLI::App app;
  cli::add_bench(app);
  testing::internal::CaptureStdout();
  app.parse("bench --backend hip --json --repeats " + std::to_string(kRepeats) + " " + options);
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(DeviceBench, TimesCallsByTheClockOfTheDevice) {
  const ScratchDirectory folder;
  const std::string cases = folder / "cases.txt";
  std::ofstream(cases) << "tiny 3,5,6 2,4,4 4 2 24 0.5 f32\n";
  FakeDevice device;
  device.close();
  const auto rows = bench("--cases " + cases + " --stage fine --stage pool --stage attention");
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) {
    SCOPED_TRACE(row["stage"]);
    EXPECT_EQ(row["backend"], "hip");
    EXPECT_EQ(row["repeats"], kRepeats);
    // pool is called for q, k and v. Nothing of the fill is in it.
    const double calls = row["stage"] == "pool" ? 3.0 : 1.0;
    EXPECT_EQ(row["median_ms"].get<double>(), calls * FakeDevice::kCallMs);
    EXPECT_EQ(row["iqr_ms"].get<double>(), 0.0);
    EXPECT_EQ(row["extra_bytes"], FakeDevice::kWorkspaceBytes);
    EXPECT_LE(row["check"]["error"].get<double>(), row["check"]["tolerance"].get<double>());
  }
  EXPECT_EQ(device.num_fills, 3 * (kWarmUp + kRepeats)) << "the cache is cold each time";
}

}  // namespace
}  // namespace vsa::test
