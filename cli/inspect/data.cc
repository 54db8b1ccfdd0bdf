// Computes scores, selection and mass of one head. Host-only.
#include "cli/inspect/data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/common/device.h"
#include "cli/common/failure.h"
#include "cli/common/heads.h"
#include "vsa/element.h"

namespace vsa::cli {
namespace {

/// Tensors of one query head and its kv head.
struct HeadTensors {
  ConstTensor q, k, v;
};

HeadTensors tensors_of(const AttentionInput& input, int64_t batch, int64_t head) {
  const int64_t kv_head = head / (input.num_heads() / input.num_kv_heads());
  const HeadRange kv_range{.batch = batch, .first = kv_head, .count = 1};
  return {.q = heads_of(input.q(), {.batch = batch, .first = head, .count = 1}),
          .k = heads_of(input.k(), kv_range),
          .v = heads_of(input.v(), kv_range)};
}

/// Tile tensors and lse: f64 beside f64 tokens, else f32.
OwnedTensor statistics(const ConstTensor& tokens, int64_t rows, int64_t width) {
  const DType dtype = tokens.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return OwnedTensor(dtype, {.batch = 1, .num_heads = 1, .seq_len = rows, .head_dim = width},
                     Layout::kBhsd);
}

}  // namespace

std::vector<int32_t> HeadMap::kept(int64_t row) const {
  const ConstLut table = lut.view();
  const int32_t* first = table.index + row * table.dims.pitch;
  return {first, first + table.count[row]};
}

std::vector<double> HeadMap::probabilities(int64_t row) const {
  std::vector<double> p(scores.begin() + row * num_kv_tiles,
                        scores.begin() + (row + 1) * num_kv_tiles);
  const double top = *std::ranges::max_element(p);
  for (double& x : p) x = std::exp(x - top);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

double HeadMap::kept_share() const {
  const ConstLut table = lut.view();
  const int64_t kept = std::accumulate(table.count, table.count + num_q_tiles, int64_t{0});
  return static_cast<double>(kept) / static_cast<double>(num_q_tiles * num_kv_tiles);
}

HeadMap map_head(const Context& context, const AttentionInput& input, int64_t batch, int64_t head,
                 const SelectOptions& select, std::optional<float> scale) {
  const HeadTensors in = tensors_of(input, batch, head);
  const int64_t nq = input.q_plan().num_tiles();
  const int64_t nk = input.kv_plan().num_tiles();
  const OwnedTensor q = statistics(in.q, nq, input.head_dim());
  const OwnedTensor k = statistics(in.q, nk, input.head_dim());
  const OwnedTensor v = statistics(in.q, nk, input.head_dim());
  const OwnedTensor scores = statistics(in.q, nq, nk);
  HeadMap map{.num_q_tiles = nq,
              .num_kv_tiles = nk,
              .scores = std::vector<float>(static_cast<size_t>(nq * nk)),
              .lut = LutBuffer(
                  {.batch = 1, .num_heads = 1, .num_q_tiles = nq, .pitch = lut_pitch(select, nk)})};
  check(on_backend(context, vsa::pool, {.x = in.q, .plan = &input.q_plan(), .pooled = q.view()}),
        "x is q of the file");
  check(on_backend(context, vsa::pool, {.x = in.k, .plan = &input.kv_plan(), .pooled = k.view()}),
        "x is k of the file");
  check(on_backend(context, vsa::pool, {.x = in.v, .plan = &input.kv_plan(), .pooled = v.view()}),
        "x is v of the file");
  check(on_backend(context, vsa::coarse,
                   {.q_pooled = q.view(),
                    .k_pooled = k.view(),
                    .v_pooled = v.view(),
                    .kv_plan = &input.kv_plan(),
                    .scale = scale,
                    .coarse_scores = scores.view(),
                    .coarse_out = {}}));
  check(on_backend(context, vsa::select,
                   {.coarse_scores = scores.view(), .options = select, .lut = map.lut.view()}));
  const Tensor& from = scores.view();
  for (size_t i = 0; i < map.scores.size(); ++i) {
    map.scores[i] =
        static_cast<float>(load_element(from.data, from.dtype, static_cast<int64_t>(i)));
  }
  return map;
}

Mass captured_mass(const Context& context, const AttentionInput& input, int64_t batch, int64_t head,
                   const HeadMap& map, const SampledTiles& sample, std::optional<float> scale) {
  const HeadTensors in = tensors_of(input, batch, head);
  const OwnedTensor q = gather_tokens(in.q, input.q_plan(), sample);
  const int64_t rows = sample.plan.seq_len();
  const OwnedTensor out(in.q.dtype,
                        {.batch = 1, .num_heads = 1, .seq_len = rows, .head_dim = input.head_dim()},
                        Layout::kBhsd);
  const auto lse_of = [&](const ConstLut& lut) {
    OwnedTensor lse = statistics(in.q, rows, 1);
    check(on_backend(context, vsa::fine,
                     {.q = q.view(),
                      .k = in.k,
                      .v = in.v,
                      .q_plan = &sample.plan,
                      .kv_plan = &input.kv_plan(),
                      .lut = lut,
                      .scale = scale,
                      .out = out.view(),
                      .lse = lse.view()}));
    return lse;
  };
  const LutBuffer all = LutBuffer::dense({.batch = 1,
                                          .num_heads = 1,
                                          .num_q_tiles = std::ssize(sample.tiles),
                                          .pitch = map.num_kv_tiles});
  const LutBuffer kept = gather_rows(map.lut.view(), sample);
  const OwnedTensor kept_lse = lse_of(kept.view());
  const OwnedTensor all_lse = lse_of(all.view());

  Mass mass{.num_tiles = std::ssize(sample.tiles), .mean = 0.0, .least = 1.0, .of_tile = {}};
  double sum = 0.0;
  for (int64_t t = 0; t < mass.num_tiles; ++t) {
    double sum_of_tile = 0.0;
    for (const int32_t s : sample.plan.tokens(t)) {
      const Tensor& a = kept_lse.view();
      const Tensor& b = all_lse.view();
      const double share =
          std::exp(load_element(a.data, a.dtype, s) - load_element(b.data, b.dtype, s));
      sum_of_tile += share;
      mass.least = std::min(mass.least, share);
    }
    sum += sum_of_tile;
    mass.of_tile.push_back(sum_of_tile / sample.plan.tile_len(t));
  }
  mass.mean = sum / static_cast<double>(sample.plan.num_valid_tokens());
  return mass;
}

}  // namespace vsa::cli
