// select: which kv tiles each query tile keeps. Host-only.
//
// A row keeps the forced columns and, of the other kv tiles, the topk best by (score descending,
// index ascending). -0 equals +0, and NaN ranks below -inf, so the order is total and a row always
// keeps exactly as many tiles as asked. A dense row keeps all.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/core/element.h"
#include "src/core/lut_row.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

/// The kv tiles of one row, ascending.
std::vector<int32_t> kept_tiles(const Row& scores, const SelectOptions& options, bool dense) {
  std::vector<int32_t> all(scores.size());
  std::iota(all.begin(), all.end(), 0);
  if (dense) return all;

  // Both lists are ascending; what is not forced competes.
  std::vector<int32_t> ranked;
  std::ranges::set_difference(all, options.forced_columns, std::back_inserter(ranked));
  const auto score = [&](int32_t j) { return scores[static_cast<size_t>(j)]; };
  const auto better = [&](int32_t a, int32_t b) {
    if (std::isnan(score(a)) || std::isnan(score(b))) {
      return !std::isnan(score(a)) && std::isnan(score(b));
    }
    return score(a) > score(b);
  };
  std::ranges::stable_sort(ranked, better);  // stable: equal scores stay in order of index
  ranked.resize(std::min(ranked.size(), static_cast<size_t>(options.topk)));

  std::vector<int32_t> kept(options.forced_columns.begin(), options.forced_columns.end());
  kept.insert(kept.end(), ranked.begin(), ranked.end());
  std::ranges::sort(kept);
  return kept;
}

}  // namespace

Status select(const Context& /*context*/, const SelectArgs& args) {
  const ConstTensor& scores = args.coarse_scores;
  const auto& dense_rows = args.options.dense_rows;
  for (int64_t b = 0; b < scores.shape[0]; ++b) {
    for (int64_t h = 0; h < scores.shape[1]; ++h) {
      for (int64_t i = 0; i < scores.shape[2]; ++i) {
        const bool dense = std::ranges::binary_search(dense_rows, i);
        const auto kept = kept_tiles(load_row(scores, b, h, i), args.options, dense);
        const int64_t row = lut_row_idx(args.lut.dims, b, h, i);
        int32_t* index = args.lut.index + row * args.lut.dims.pitch;
        std::fill_n(index, args.lut.dims.pitch, -1);
        std::ranges::copy(kept, index);
        args.lut.count[row] = static_cast<int32_t>(kept.size());
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
