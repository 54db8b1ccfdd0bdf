// How much memory and how many processors this process may use. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>

namespace vsa::system {

/// What this process can still get, in bytes: the least of
/// - the machine's available memory (MemAvailable) and its free swap;
/// - what each control group from the process's own up to the root leaves (version 2: memory.max,
///   memory.high and memory.swap.max; version 1: memory.limit_in_bytes with
///   memory.memsw.limit_in_bytes). Inactive file pages count as free: the kernel drops them first;
/// - RLIMIT_AS and RLIMIT_DATA.
/// Cost: reads some files of /proc and /sys.
/// @param root  the folder that /proc and /sys are looked for in
int64_t available_memory_bytes(const std::filesystem::path& root = "/");

/// Processors that this process may keep busy, at least 1: those of its affinity mask and cpuset,
/// or fewer if a control group has a quota of time (cpu.max; cpu.cfs_quota_us), rounded up.
int available_processors(const std::filesystem::path& root = "/");

/// Threads to compute with where the caller named no number: what OMP_NUM_THREADS says, and without
/// that available_processors().
int default_num_threads();

}  // namespace vsa::system
