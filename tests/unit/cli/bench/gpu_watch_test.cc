// What `vsa bench` notes of the GPU, from a stand-in for nvidia-smi.
#include "cli/bench/gpu_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vsa::cli {
namespace {

struct Watch : testing::Test {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("vsa-watch-" + std::to_string(getpid()));
  std::string path = std::getenv("PATH");

  void SetUp() override {
    std::filesystem::create_directory(folder);
    setenv("PATH", (folder.string() + ":" + path).c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", path.c_str(), 1);
    std::filesystem::remove_all(folder);
  }
  /// `text` is a shell script; it has written its lines when the folder holds "done".
  void nvidia_smi(const std::string& text) const {
    const auto file = folder / "nvidia-smi";
    std::ofstream(file) << "#!/bin/sh\n"
                        << text << "\ntouch " << folder << "/done\nexec sleep 60\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  void wait() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!std::filesystem::exists(folder / "done") && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
};

TEST_F(Watch, RangesOfTheSamplesOfThatGpu) {
  nvidia_smi(R"(case "$*" in *--id=0000:1b:00.0*) ;; *) exit 1 ;; esac
echo "580.1, 700.00, 0x0, 350.5, 1980, 40"
echo "580.1, 700.00, 0x4, 698.0, [N/A], 55"
echo "580.1, 700.00, 0x4, 700.5, 1700, 60"
printf "580.1, 700")");
  GpuWatch watch("0000:1b:00.0");
  wait();
  const auto seen = watch.seen();
  EXPECT_EQ(seen["driver"], "580.1");
  EXPECT_EQ(seen["power_limit_w"], "700.00");
  EXPECT_EQ(seen["clock_reasons"], (std::vector<std::string>{"0x0", "0x4"}));
  EXPECT_EQ(seen["power_w"], (std::vector<double>{350.5, 698.0, 700.5}));
  EXPECT_EQ(seen["sm_mhz"][0], 1700.0);
  EXPECT_EQ(seen["celsius"], (std::vector<double>{40, 55, 60}));
  EXPECT_EQ(seen["samples"], 3);
}

TEST_F(Watch, NothingWithoutAGpuOrNvidiaSmi) {
  EXPECT_TRUE(GpuWatch("").seen().is_null());
  nvidia_smi("echo Field is not a valid field to query.");
  GpuWatch watch("0000:1b:00.0");
  wait();
  EXPECT_TRUE(watch.seen().is_null());
  setenv("PATH", (folder / "none").c_str(), 1);
  EXPECT_TRUE(GpuWatch("0000:1b:00.0").seen().is_null());
}

}  // namespace
}  // namespace vsa::cli
