// Limits read from copies of /proc and /sys as containers of several kinds show them.
#include "runtime/system/limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/runtime/io/files.h"

namespace vsa::system {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;
constexpr int64_t kMib = int64_t{1} << 20;

/// A machine with 16 GiB available, no swap and 8 processors; tests add control groups.
struct LimitsTest : testing::Test {
  vsa::test::ScratchDirectory dir;
  std::filesystem::path root = dir.path();

  LimitsTest() {
    file("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\nSwapFree: 0 kB\n");
    file("proc/self/status",
         "Name:\tvsa\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\nCpus_allowed_list:\t0-7\n");
    process_limits("unlimited", "unlimited");
  }

  void file(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  }
  void file(const std::string& name, int64_t value) const {
    file(name, std::to_string(value) + "\n");
  }

  void process_limits(const std::string& address_space, const std::string& data) const {
    file("proc/self/limits",
         "Limit                     Soft Limit           Hard Limit           Units     \n"
         "Max data size             " +
             data +
             "            unlimited            bytes     \n"
             "Max address space         " +
             address_space + "            unlimited            bytes     \n");
  }
  void swap(int64_t free_kib) const {
    file("proc/meminfo",
         "MemAvailable: 16777216 kB\nSwapFree: " + std::to_string(free_kib) + " kB\n");
  }
  /// The unified hierarchy, mounted where systemd mounts it.
  void version_2(const std::string& group) const {
    file("proc/self/cgroup", "0::" + group + "\n");
    file("proc/self/mountinfo",
         "24 1 0:22 / /proc rw,nosuid shared:5 - proc proc rw\n"
         "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// Memory and cpu hierarchies of version 1, `part` of each mounted as containers do.
  void version_1(const std::string& group, const std::string& part) const {
    file("proc/self/cgroup", "9:memory:" + group + "\n4:cpu,cpuacct:" + group + "\n0::/init\n");
    file("proc/self/mountinfo",
         "31 24 0:27 " + part +
             " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "32 24 0:28 " +
             part +
             " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
  int64_t memory() const { return available_memory_bytes(root); }
  int processors() const { return available_processors(root); }
};

TEST_F(LimitsTest, WithoutControlGroupsTheMachineDecides) {
  EXPECT_EQ(memory(), 16 * kGib);
  EXPECT_EQ(processors(), 8);
}

TEST_F(LimitsTest, P24_InactiveFilePagesCountAsFree) {
  version_2("/");
  file("sys/fs/cgroup/memory.max", 4 * kGib);
  file("sys/fs/cgroup/memory.current", 4 * kGib - 10 * kMib);
  file("sys/fs/cgroup/memory.stat",
       "anon 94371840\nfile 4294967296\ninactive_file_not 7\ninactive_file " +
           std::to_string(4 * kGib - 100 * kMib) + "\nactive_file 0\n");
  EXPECT_EQ(memory(), 4 * kGib - 90 * kMib);
}

TEST_F(LimitsTest, P24_LimitsHoldAtEveryGroupUpThePath) {
  version_2("/user.slice/job.slice/run.scope");
  const std::string base = "sys/fs/cgroup/user.slice";
  for (const std::string& group : {base, base + "/job.slice", base + "/job.slice/run.scope"}) {
    file(group + "/memory.max", "max\n");
    file(group + "/memory.current", kGib);
  }
  EXPECT_EQ(memory(), 16 * kGib);
  file(base + "/memory.max", 6 * kGib);
  EXPECT_EQ(memory(), 5 * kGib);
  file(base + "/job.slice/memory.max", 4 * kGib);
  EXPECT_EQ(memory(), 3 * kGib);
  file(base + "/job.slice/run.scope/memory.high", 2 * kGib);
  EXPECT_EQ(memory(), 1 * kGib);
  file(base + "/job.slice/run.scope/memory.current", 3 * kGib);  // above memory.high
  EXPECT_EQ(memory(), 0);
}

TEST_F(LimitsTest, P24_SwapIsUsableUpToTheGroupsShare) {
  swap(8 << 20);
  EXPECT_EQ(memory(), 24 * kGib);
  version_2("/");
  file("sys/fs/cgroup/memory.max", 4 * kGib);
  file("sys/fs/cgroup/memory.current", 0);
  EXPECT_EQ(memory(), 12 * kGib);  // no limit on swap
  file("sys/fs/cgroup/memory.swap.max", 2 * kGib);
  file("sys/fs/cgroup/memory.swap.current", kGib);
  EXPECT_EQ(memory(), 5 * kGib);
  file("sys/fs/cgroup/memory.swap.max", 0);
  EXPECT_EQ(memory(), 4 * kGib);
}

TEST_F(LimitsTest, P24_Version1AndHybrid) {
  version_1("/docker/abc/job", "/docker/abc");
  const std::string base = "sys/fs/cgroup/memory";
  file(base + "/memory.limit_in_bytes", 5 * kGib);
  file(base + "/memory.usage_in_bytes", 4 * kGib);
  file(base + "/memory.stat",
       "inactive_file 1\ntotal_inactive_file " + std::to_string(kGib) + "\n");
  file(base + "/job/memory.limit_in_bytes", "9223372036854771712\n");  // none
  file(base + "/job/memory.usage_in_bytes", kGib);
  EXPECT_EQ(memory(), 2 * kGib);
  swap(8 << 20);
  EXPECT_EQ(memory(), 10 * kGib);
  file(base + "/memory.memsw.limit_in_bytes", 6 * kGib);
  file(base + "/memory.memsw.usage_in_bytes", 4 * kGib);
  EXPECT_EQ(memory(), 3 * kGib);
  file(base + "/job/memory.limit_in_bytes", kGib + kMib);
  swap(0);
  EXPECT_EQ(memory(), kMib);
}

TEST_F(LimitsTest, P24_AGroupOfAnotherNamespaceIsNotWalked) {
  version_2("/../../other");
  file("sys/fs/cgroup/memory.max", 2 * kGib);
  file("sys/fs/cgroup/memory.current", kGib);
  EXPECT_EQ(memory(), kGib);
}

TEST_F(LimitsTest, P24_LimitsOfTheProcess) {
  process_limits("3221225472", "unlimited");
  EXPECT_EQ(memory(), 2 * kGib);
  process_limits("3221225472", "1073741824");
  EXPECT_EQ(memory(), kGib / 2);
}

TEST_F(LimitsTest, P24_ThreadsFollowQuotaAndAffinity) {
  version_2("/a/b");
  file("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(processors(), 8);
  file("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(processors(), 3);
  file("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(processors(), 2);
  file("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(processors(), 1);
  file("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  file("proc/self/status", "Cpus_allowed:\tff\nCpus_allowed_list:\t1,4-6\n");
  EXPECT_EQ(processors(), 4);
}

TEST_F(LimitsTest, P24_ThreadsOfVersion1) {
  version_1("/docker/abc", "/docker/abc");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors(), 8);
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(processors(), 1);
}

TEST_F(LimitsTest, P24_NothingReadableIsNoLimit) {
  const std::filesystem::path empty = dir.path() / "empty";
  std::filesystem::create_directories(empty);
  EXPECT_GT(available_memory_bytes(empty), 16 * kGib);
  EXPECT_GE(available_processors(empty), 1);
  EXPECT_GT(available_memory_bytes(), 0);  // of this machine
  EXPECT_GE(available_processors(), 1);
}

}  // namespace
}  // namespace vsa::system
