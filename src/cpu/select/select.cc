// select: exactly the tiles that are asked for, in linear time. Host-only.
//
// A score and its index make one 64-bit rank, so that "score descending, index ascending" is the
// order of unsigned integers and no two ranks are equal. A partial sort then leaves exactly the k
// largest in front.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "src/core/lut_row.h"
#include "src/cpu/select/select_row.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

/// Larger for what ranks higher: -0 equals +0, NaN ranks below -inf.
uint64_t rank_of(float score, int64_t j) {
  constexpr uint32_t kSign = 0x80000000U;
  uint32_t order = 0;  // NaN; -inf maps to 0x007FFFFF
  if (!std::isnan(score)) {
    const uint32_t bits = std::bit_cast<uint32_t>(score == 0.0F ? 0.0F : score);
    order = (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
  return (uint64_t{order} << 32) | (0xFFFFFFFFU - static_cast<uint32_t>(j));
}

}  // namespace

void select_row(const float* scores, int64_t num_kv_tiles, int64_t q_tile,
                const SelectOptions& options, std::vector<uint64_t>& ranks,
                std::vector<int32_t>& kept) {
  const auto all = static_cast<size_t>(num_kv_tiles);
  kept.clear();
  if (std::ranges::binary_search(options.dense_rows, q_tile)) {
    kept.resize(all);
    std::iota(kept.begin(), kept.end(), 0);
    return;
  }
  // Forced columns rank above all scores, so the best of all are the forced ones and the best topk
  // others.
  constexpr uint64_t kForced = ~uint64_t{0};
  ranks.resize(all);
  for (size_t j = 0; j < all; ++j) ranks[j] = rank_of(scores[j], static_cast<int64_t>(j));
  for (const int32_t j : options.forced_columns) ranks[static_cast<size_t>(j)] = kForced;
  const size_t num_kept =
      std::min(all, static_cast<size_t>(options.topk) + options.forced_columns.size());
  const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(num_kept) - 1;
  std::nth_element(ranks.begin(), last, ranks.end(), std::greater<>());
  // nth_element moved the ranks, but the low half of each says where it came from.
  kept.assign(options.forced_columns.begin(), options.forced_columns.end());
  for (auto rank = ranks.begin(); rank <= last; ++rank) {
    if (*rank == kForced) continue;
    kept.push_back(static_cast<int32_t>(0xFFFFFFFFU - static_cast<uint32_t>(*rank)));
  }
  std::ranges::sort(kept);
}

void store_lut_row(const Lut& lut, int64_t row, std::span<const int32_t> kept) {
  int32_t* index = lut.index + row * lut.dims.pitch;
  std::ranges::copy(kept, index);
  std::fill(index + kept.size(), index + lut.dims.pitch, -1);
  lut.count[row] = static_cast<int32_t>(kept.size());
}

Status select(const Context& context, const SelectArgs& args) {
  const ConstTensor& scores = args.coarse_scores;
  const int64_t num_kv_tiles = scores.shape[3];
  struct Scratch {
    std::vector<uint64_t> ranks;
    std::vector<int32_t> kept;
  };
  std::vector<Scratch> scratch(static_cast<size_t>(num_threads(context)));
  for (Scratch& s : scratch) {
    s.ranks.reserve(static_cast<size_t>(num_kv_tiles));
    s.kept.reserve(static_cast<size_t>(num_kv_tiles));
  }
  parallel_for_heads(
      context, scores, scores.shape[2], [&](int64_t b, int64_t h, int64_t i, int thread) {
        Scratch& s = scratch[static_cast<size_t>(thread)];
        select_row(f32_row(scores, b, h, i), num_kv_tiles, i, args.options, s.ranks, s.kept);
        store_lut_row(args.lut, lut_row_idx(args.lut.dims, b, h, i), s.kept);
      });
  return {};
}

}  // namespace vsa::cpu
