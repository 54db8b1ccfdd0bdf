// One comparison of `select` on the device with the reference.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "tests/gpu/cases.h"
#include "tests/support/compare.h"

namespace vsa::test::gpu {

/// For each topk the table is that of the reference: alone, and with the first and the last kv tile
/// forced and one dense row.
inline void expect_same_selection(const TestTensor& scores, std::initializer_list<int64_t> topks,
                                  int32_t dense_row) {
  const int64_t most = scores.dims().head_dim;
  const std::vector<int32_t> forced{0, static_cast<int32_t>(most - 1)};
  const std::vector<int32_t> dense{dense_row};
  for (const int64_t topk : topks) {
    SCOPED_TRACE(topk);
    for (const SelectOptions& options :
         {SelectOptions{.topk = topk}, SelectOptions{.topk = topk,
                                       .forced_columns = std::span(forced).first(most > 1 ? 2 : 1),
                                       .dense_rows = dense}}) {
      EXPECT_TRUE(same_lut(gpu::run_select(scores, options).view(),
                           test::run_select(kReference, scores, options).view()));
    }
  }
}

}  // namespace vsa::test::gpu
