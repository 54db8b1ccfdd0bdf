// How the runtime spreads work over threads. Host-only.
#include "runtime/nn/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>

namespace vsa::nn {

void parallel_rows(int64_t rows, const std::function<void(const RowBlock&)>& fn) {
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  if (blocks <= 1) {  // waking and awaiting other threads costs more than a short row block
    if (blocks == 1) fn({.begin = 0, .end = rows, .thread = 0});
    return;
  }
  std::exception_ptr failure;  // exceptions must not leave an OpenMP region
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < blocks; ++i) {
    try {
      fn({.begin = i * kRowBlock,
          .end = std::min(rows, (i + 1) * kRowBlock),
          .thread = omp_get_thread_num()});
    } catch (...) {
#pragma omp critical(vsa_parallel_rows_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

int num_threads() { return omp_get_max_threads(); }

ThreadCount::ThreadCount(int num_threads) : before_(omp_get_max_threads()) {
  if (num_threads > 0) omp_set_num_threads(num_threads);
}

ThreadCount::~ThreadCount() { omp_set_num_threads(before_); }

}  // namespace vsa::nn
