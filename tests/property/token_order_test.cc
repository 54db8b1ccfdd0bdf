// Tokens in any order: a plan along a curve or of any assignment gives the bits that its tiles give
// once their tokens stand one after the other.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/problem.h"

namespace vsa::test {
namespace {

class Orders : public BackendTest {
 protected:
  void SetUp() override { VSA_NEEDS_BACKWARD; }
};
VSA_FOR_EACH_BACKEND(Orders);

const Heads kHeads{2, 4, 2, 64};
constexpr Grid kGrid{5, 6, 7};

/// Tiles of random tokens and random lengths, one of them empty.
TilePlan random_assignment(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(kGrid.num_tokens()));
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::shuffle(tokens, random);
  std::vector<int32_t> lens{0};
  for (auto left = static_cast<int32_t>(tokens.size()); left > 0; left -= lens.back()) {
    lens.push_back(std::min(left, static_cast<int32_t>(random() % 60 + 1)));
  }
  return TilePlan::assigned(tokens, lens, 64).value();
}

std::vector<TilePlan> plans() {
  std::vector<TilePlan> all;
  all.push_back(TilePlan::grid(kGrid, {.order = TokenOrder::kGilbert}).value());
  all.push_back(
      TilePlan::grid(kGrid, {.order = TokenOrder::kGilbertFrames, .tile = {2, 8, 8}}).value());
  const std::vector<int64_t> segments{70, 3};
  all.push_back(TilePlan::packed(segments, kGrid, {.order = TokenOrder::kGilbert}).value());
  all.push_back(random_assignment(1));
  return all;
}

/// Row i of the result is row from[i] of x.
TestTensor rows(const TestTensor& x, std::span<const int32_t> from) {
  Dims dims = x.dims();
  dims.seq_len = std::ssize(from);
  TestTensor to(x.dtype(), dims);
  for (int64_t b = 0; b < dims.batch; ++b) {
    for (int64_t h = 0; h < dims.num_heads; ++h) {
      for (int64_t s = 0; s < dims.seq_len; ++s) {
        for (int64_t d = 0; d < dims.head_dim; ++d) {
          to.set(b, h, s, d, x.at(b, h, from[static_cast<size_t>(s)], d));
        }
      }
    }
  }
  return to;
}

struct Problem {
  Qkv in;
  TestTensor gate, dout;
};

Problem problem(const TilePlan& plan, DType dtype) {
  return {.in = make_qkv(dtype, kHeads, plan, plan, 1),
          .gate = token_tensor(dtype, kHeads, plan, 2),
          .dout = token_tensor(dtype, kHeads, plan, 3)};
}

Problem in_compact_order(const Problem& p) {
  const TilePlan& plan = p.in.q_plan;
  const TilePlan compact = plan.in_compact_order();
  const auto move = [&](const TestTensor& x) { return rows(x, plan.tokens()); };
  return {.in = {.q = move(p.in.q),
                 .k = move(p.in.k),
                 .v = move(p.in.v),
                 .q_plan = compact,
                 .kv_plan = compact},
          .gate = move(p.gate),
          .dout = move(p.dout)};
}

struct Outcome {
  AttentionResult forward;
  AttentionGradients backward;
};

Outcome run(const Context& context, const Problem& p) {
  const AttentionOptions options{.gate_coarse = Gate::tensor(p.gate.view()), .select = {.topk = 2}};
  Outcome outcome{.forward = run_attention(context, p.in, options), .backward = {}};
  outcome.backward = run_attention_backward(context, p.in, options, outcome.forward, p.dout);
  return outcome;
}

TEST_P(Orders, TheOperatorGivesTheBitsOfCompactOrder) {
  for (const TilePlan& plan : plans()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Problem p = problem(plan, dtype);
      const Outcome got = run(context(), p);
      const Outcome want = run(context(), in_compact_order(p));
      const auto same = [&](const TestTensor& a, const TestTensor& b) {
        return same_bits(rows(a, plan.tokens()).view(), b.view());
      };
      EXPECT_TRUE(same_lut(got.forward.lut.view(), want.forward.lut.view()));
      EXPECT_TRUE(same(got.forward.out, want.forward.out));
      EXPECT_TRUE(same(got.forward.lse, want.forward.lse));
      EXPECT_TRUE(same(got.backward.dq, want.backward.dq));
      EXPECT_TRUE(same(got.backward.dk, want.backward.dk));
      EXPECT_TRUE(same(got.backward.dv, want.backward.dv));
      EXPECT_TRUE(same(got.backward.dgate_coarse, want.backward.dgate_coarse));
    }
  }
}

TEST_P(Orders, PaddedTileOrderGivesTheSameOutput) {
  VSA_NEEDS(tile);
  for (const TilePlan& plan : plans()) {
    const Problem p = problem(plan, DType::kBF16);
    const TilePlan tiled = plan.in_tile_order();
    const auto move = [&](const TestTensor& x) {
      TestTensor there = run_tile(context(), x, plan);
      fill_padding(there, tiled, std::nan(""));
      return there;
    };
    const Problem there{.in = {.q = move(p.in.q),
                               .k = move(p.in.k),
                               .v = move(p.in.v),
                               .q_plan = tiled,
                               .kv_plan = tiled},
                        .gate = move(p.gate),
                        .dout = move(p.dout)};
    const TestTensor back = run_untile(context(), run(context(), there).forward.out, plan);
    EXPECT_TRUE(same_bits(back.view(), run(context(), p).forward.out.view()));
  }
}

TEST_P(Orders, TokensInAnotherOrderWithinATileGiveTheSameRows) {
  // The same tiles, each backwards: means and sums differ by their rounding alone, so that two
  // tokens with the same numbers as before must get the same selection.
  const TilePlan plan = TilePlan::grid(kGrid, {.order = TokenOrder::kGilbert}).value();
  std::vector<int32_t> tokens;
  std::vector<int32_t> lens;
  for (int64_t t = 0; t < plan.num_tiles(); ++t) {
    tokens.insert(tokens.end(), plan.tokens(t).rbegin(), plan.tokens(t).rend());
    lens.push_back(plan.tile_len(t));
  }
  const TilePlan backwards = TilePlan::assigned(tokens, lens, plan.tile_tokens()).value();
  const Problem p = problem(plan, DType::kF32);
  Problem other = problem(plan, DType::kF32);
  other.in.q_plan = backwards;
  other.in.kv_plan = backwards;
  const Outcome a = run(context(), p);
  const Outcome b = run(context(), other);
  EXPECT_TRUE(same_lut(a.forward.lut.view(), b.forward.lut.view()));
  double largest = 0.0;
  for (int64_t s = 0; s < plan.seq_len(); ++s) {
    for (int64_t d = 0; d < kHeads.head_dim; ++d) {
      const double difference = a.forward.out.at(1, 3, s, d) - b.forward.out.at(1, 3, s, d);
      ASSERT_FALSE(std::isnan(difference));
      largest = std::max(largest, std::abs(difference));
    }
  }
  // Sums of at most 210 terms of N(0, 1) in f32.
  EXPECT_LT(largest, 210 * 5 * std::numeric_limits<float>::epsilon());
}

}  // namespace
}  // namespace vsa::test
