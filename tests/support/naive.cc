#include "tests/support/naive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "src/core/lut_row.h"

namespace vsa::test {
namespace {

/// The tile of every position, -1 for padding.
std::vector<int32_t> tile_of_position(const TilePlan& plan) {
  std::vector<int32_t> tile(static_cast<size_t>(plan.seq_len()), -1);
  for (int64_t t = 0; t < plan.num_tiles(); ++t) {
    for (const int32_t s : plan.tokens(t)) tile[static_cast<size_t>(s)] = static_cast<int32_t>(t);
  }
  return tile;
}

double scale_used(const Qkv& in) {
  return static_cast<double>(in.scale.value_or(default_scale(in.q.dims().head_dim)));
}

/// Means of the rows of each tile, one row of the result a tile; NaN for an empty tile.
TestTensor tile_means(const TestTensor& x, const TilePlan& plan) {
  Dims dims = x.dims();
  dims.seq_len = plan.num_tiles();
  TestTensor mean(DType::kF64, dims);
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t t = 0; t < dims.seq_len; ++t) {
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          double sum = 0.0;
          for (const int32_t s : plan.tokens(t)) sum += x.at(b, h, s, d);
          mean.set(b, h, t, d, sum / static_cast<double>(plan.tile_len(t)));
        }
      }
    }
  }
  return mean;
}

}  // namespace

TokenMask token_mask(const Qkv& in, const ConstLut& lut) {
  return [q_tile = tile_of_position(in.q_plan), kv_tile = tile_of_position(in.kv_plan), lut](
             int64_t b, int64_t h, int64_t i, int64_t j) {
    const int32_t row = q_tile[static_cast<size_t>(i)];
    const int32_t column = kv_tile[static_cast<size_t>(j)];
    return row >= 0 && column >= 0 && std::ranges::count(lut_row(lut, b, h, row), column) > 0;
  };
}

FineResult naive_attention(const Qkv& in, const TokenMask& mask, const std::vector<int64_t>& rows) {
  const Dims dims = in.q.dims();
  const int64_t num_keys = in.k.dims().seq_len;
  const int64_t group_size = dims.num_heads / in.k.dims().num_heads;
  FineResult result{.out = TestTensor(DType::kF64, dims),
                    .lse = TestTensor(DType::kF64, {dims.batch, dims.num_heads, dims.seq_len, 1})};
  std::vector<int64_t> wanted = rows;
  if (wanted.empty()) {
    wanted.resize(static_cast<size_t>(dims.seq_len));
    std::iota(wanted.begin(), wanted.end(), 0);
  }
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (const int64_t i : wanted) {
        std::vector<int64_t> keys;
        std::vector<double> scores;
        for (int64_t j = 0; j < num_keys; ++j) {
          if (!mask(b, h, i, j)) continue;
          double score = 0.0;
          for (int64_t d = 0; d < dims.head_dim; ++d) {
            score += in.q.at(b, h, i, d) * in.k.at(b, h / group_size, j, d);
          }
          keys.push_back(j);
          scores.push_back(scale_used(in) * score);
        }
        double max = -std::numeric_limits<double>::infinity();
        for (const double s : scores) max = std::max(max, s);
        double sum = 0.0;
        for (const double s : scores) sum += std::exp(s - max);
        const double lse = max + std::log(sum);
        result.lse.set(b, h, i, 0, keys.empty() ? max : lse);
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          double out = 0.0;
          for (size_t n = 0; n < keys.size(); ++n) {
            out += std::exp(scores[n] - lse) * in.v.at(b, h / group_size, keys[n], d);
          }
          result.out.set(b, h, i, d, out);
        }
      }
    }
  }
  return result;
}

TestTensor naive_coarse(const Qkv& in) {
  const Qkv means{.q = tile_means(in.q, in.q_plan),
                  .k = tile_means(in.k, in.kv_plan),
                  .v = tile_means(in.v, in.kv_plan),
                  .q_plan = in.q_plan,
                  .kv_plan = in.kv_plan,
                  .scale = in.scale};
  const auto has_token = [&](int64_t, int64_t, int64_t i, int64_t j) {
    return in.q_plan.tile_len(i) > 0 && in.kv_plan.tile_len(j) > 0;
  };
  const TestTensor out = naive_attention(means, has_token).out;
  TestTensor broadcast = constant_tensor(DType::kF64, in.q.dims(), 0.0);
  const std::vector<int32_t> tile = tile_of_position(in.q_plan);
  const Dims dims = in.q.dims();
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t s = 0; s < dims.seq_len; ++s) {
        const int32_t t = tile[static_cast<size_t>(s)];
        if (t < 0) continue;
        for (int64_t d = 0; d < dims.head_dim; ++d) broadcast.set(b, h, s, d, out.at(b, h, t, d));
      }
    }
  }
  return broadcast;
}

}  // namespace vsa::test
