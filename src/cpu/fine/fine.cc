// fine as a stage of its own: every query tile is one thread's work. Host-only.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "src/core/lut_row.h"
#include "src/cpu/fine/attend.h"
#include "src/cpu/fine/packed_heads.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/padding.h"
#include "src/cpu/support/parallel.h"

namespace vsa::cpu {
namespace {

/// Adds the repeats of a key that is among those that s.out and s.lse are of.
void add_repeats(const RepeatedKey& key, int64_t head_dim, int64_t num_rows, FineScratch& s) {
  for (int64_t r = 0; r < num_rows; ++r) {
    const float* const q = s.q.data() + r * head_dim;
    float* const out = s.out.data() + r * s.ld;
    float& lse = s.lse.data()[r];
    const float score =
        std::inner_product(q, q + head_dim, key.k, 0.0F) / std::numbers::log2e_v<float>;
    const float added = key.repeats * std::exp(score - lse);
    for (int64_t d = 0; d < head_dim; ++d) out[d] = (out[d] + added * key.v[d]) / (1.0F + added);
    lse += std::log1p(added);
  }
}

/// Loads the last token of the kv sequence for the rows that keep its tile.
class LastKey {
 public:
  explicit LastKey(const FineArgs& args) : args_(args) {
    if (args.last_key_repeats == 0) return;
    const auto last = static_cast<int32_t>(args.kv_plan->seq_len() - 1);
    for (int32_t tile = 0; tile < args.kv_plan->num_tiles(); ++tile) {
      const auto tokens = args.kv_plan->tokens(tile);
      const auto at = std::ranges::find(tokens, last);
      if (at == tokens.end()) continue;
      tile_ = tile;
      slot_ = at - tokens.begin();
    }
  }

  /// @param row  of the table
  /// @param k_and_v  memory for the two rows
  RepeatedKey of(int64_t b, int64_t h, std::span<const int32_t> row,
                 std::vector<float>& k_and_v) const {
    if (tile_ < 0 || std::ranges::find(row, tile_) == row.end()) return {};
    const int64_t head_dim = args_.k.shape[3];
    const int64_t kv_head = h / (args_.q.shape[1] / args_.k.shape[1]);
    k_and_v.resize(static_cast<size_t>(2 * head_dim));
    const auto load = [&](const ConstTensor& x, float* to) {
      Rows rows = tile_rows(x, b, kv_head, *args_.kv_plan, tile_);
      rows.tokens += slot_;
      rows.count = 1;
      load_rows(rows, head_dim, to, head_dim);
    };
    load(args_.k, k_and_v.data());
    load(args_.v, k_and_v.data() + head_dim);
    return {.k = k_and_v.data(),
            .v = k_and_v.data() + head_dim,
            .repeats = static_cast<float>(args_.last_key_repeats)};
  }

 private:
  const FineArgs& args_;
  int32_t tile_ = -1;  // that has it; -1: none, or there are no repeats
  int64_t slot_ = 0;   // of the tile
};

}  // namespace

void attend(const PackedKv& kv, float scale, int64_t num_rows, std::span<const int32_t> kv_tiles,
            const FineOutputs& outputs, FineScratch& s, const RepeatedKey& repeated) {
  scale_rows(s.q.data(), num_rows * kv.head_dim, scale * std::numbers::log2e_v<float>);
  fine_tile(kv, {.q = s.q.data(), .num_rows = num_rows, .kv_tiles = kv_tiles}, s.work.data(),
            s.out.data(), s.lse.data());
  if (repeated.k != nullptr) add_repeats(repeated, kv.head_dim, num_rows, s);
  if (outputs.out.data != nullptr) store_rows(s.out.data(), s.ld, kv.head_dim, outputs.out);
  for (int64_t r = 0; r < outputs.lse.count; ++r) {
    *static_cast<float*>(outputs.lse.at(r)) = s.lse.data()[r];
  }
}

Status fine(const Context& context, const FineArgs& args) {
  const TilePlan& plan = *args.q_plan;
  const int64_t head_dim = args.q.shape[3];
  PackedHeads heads(context, args.k, args.v, *args.kv_plan, {.pooled = false});
  std::vector<FineScratch> scratch;
  for (int i = 0; i < num_threads(context); ++i) {
    scratch.emplace_back(plan, *args.kv_plan, head_dim);
  }
  const LastKey last(args);
  std::vector<std::vector<float>> last_rows(scratch.size());
  zero_padding(args.out, plan);
  zero_padding(args.lse, plan);
  heads.for_each_query_tile(
      context, args.q, plan.num_tiles(),
      [&](int64_t n, int64_t b, int64_t h, int64_t i, int thread) {
        FineScratch& s = scratch[static_cast<size_t>(thread)];
        load_rows(tile_rows(args.q, b, h, plan, i), head_dim, s.q.data(), head_dim);
        const auto row = lut_row(args.lut, b, h, i);
        attend(heads.fine(n), *args.scale, plan.tile_len(i), row,
               {tile_rows(args.out, b, h, plan, i), tile_rows(args.lse, b, h, plan, i)}, s,
               last.of(b, h, row, last_rows[static_cast<size_t>(thread)]));
      });
  return {};
}

}  // namespace vsa::cpu
