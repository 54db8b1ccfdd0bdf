// How the runtime spreads work over threads: blocks of rows (tokens). Host-only.
#pragma once

#include <cstdint>
#include <functional>

namespace vsa::nn {

/// Rows that one task takes through a chain of operations. 64 rows of a 5120-wide activation are
/// 1.3 MB, about one L2 cache; the weights a block streams through are read once per 64 rows.
/// Fixed, so that what a row is computed from does not depend on the number of threads.
inline constexpr int64_t kRowBlock = 64;

/// One task: rows [begin, end), run by thread `thread` (for scratch memory).
struct RowBlock {
  int64_t begin = 0;
  int64_t end = 0;
  int thread = 0;
  int64_t size() const { return end - begin; }
};

/// Calls fn for the blocks of [0, rows), several at a time. An exception of fn is thrown again
/// here.
void parallel_rows(int64_t rows, const std::function<void(const RowBlock&)>& fn);

/// Threads that parallel_rows uses at most: the length of an array of scratch memory.
int num_threads();

/// Sets the number of OpenMP threads for the calling thread as long as the object exists; 0 changes
/// nothing.
class ThreadCount {
 public:
  explicit ThreadCount(int num_threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_ = 0;
};

}  // namespace vsa::nn
