// norm_rope_pool: a tile of all heads is one thread's work, because a norm may be over all heads.
// Host-only.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cpu/norm_rope_pool/norm_rope_kernel.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/parallel.h"
#include "src/cpu/support/rows.h"

namespace vsa::cpu {
namespace {

/// One thread's memory for a tile.
struct Scratch {
  explicit Scratch(const NormRopePoolArgs& args)
      : rows(args.plan->tile_tokens() * args.x.shape[3]),
        cos(args.plan->tile_tokens() * args.x.shape[3] / 2),
        sin(args.plan->tile_tokens() * args.x.shape[3] / 2),
        rstd(args.plan->tile_tokens()) {}
  FloatBuffer rows, cos, sin, rstd;  // [tile_tokens, D], [tile_tokens, D / 2], [tile_tokens]
};

class NormRopePool {
 public:
  NormRopePool(const NormRopePoolArgs& args, int64_t b, int64_t t, const Scratch& scratch)
      : args_(args), b_(b), t_(t), tokens_(args.plan->tokens(t)), s_(scratch) {}

  void run() const {
    if (!args_.cos.empty()) gather_angles();
    if (args_.norm == NormOver::kAllHeads) rstd_over(0, args_.x.shape[1]);
    for (int64_t h = 0; h < args_.x.shape[1]; ++h) {
      if (args_.norm == NormOver::kHead) rstd_over(h, h + 1);
      head(h);
    }
  }

 private:
  int64_t head_dim() const { return args_.x.shape[3]; }
  int64_t count() const { return static_cast<int64_t>(tokens_.size()); }

  void load(int64_t h) const {
    load_rows(tile_rows(ConstTensor(args_.x), b_, h, *args_.plan, t_), head_dim(), s_.rows.data(),
              head_dim());
  }

  /// Side by side, as norm_rope_rows reads them.
  void gather_angles() const {
    const int64_t half = head_dim() / 2;
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t s = tokens_[static_cast<size_t>(i)];
      std::copy_n(f32_row(args_.cos, 0, 0, s), half, s_.cos.data() + i * half);
      std::copy_n(f32_row(args_.sin, 0, 0, s), half, s_.sin.data() + i * half);
    }
  }

  /// The factor of every token for heads first to last - 1: given, or from their squares.
  void rstd_over(int64_t first, int64_t last) const {
    float* const rstd = s_.rstd.data();
    if (!args_.rstd.empty()) {
      for (int64_t i = 0; i < count(); ++i) {
        rstd[i] = *f32_row(args_.rstd, b_, first, tokens_[static_cast<size_t>(i)]);
      }
      return;
    }
    std::fill_n(rstd, count(), 0.0F);
    for (int64_t h = first; h < last; ++h) {
      load(h);
      add_squares(s_.rows.data(), count(), head_dim(), rstd);
    }
    const auto terms = static_cast<float>((last - first) * head_dim());
    std::for_each_n(rstd, count(), [&](float& x) { x = 1.0F / std::sqrt(x / terms + args_.eps); });
  }

  void head(int64_t h) const {
    load(h);
    norm_rope_rows({.rows = s_.rows.data(),
                    .count = count(),
                    .head_dim = head_dim(),
                    .rstd = args_.norm == NormOver::kNothing ? nullptr : s_.rstd.data(),
                    .weight = f32_row(args_.weight, 0, h, 0),
                    .cos = args_.cos.empty() ? nullptr : s_.cos.data(),
                    .sin = args_.sin.empty() ? nullptr : s_.sin.data()});
    store_rows(s_.rows.data(), head_dim(), head_dim(), tile_rows(args_.x, b_, h, *args_.plan, t_));
    if (args_.pooled.empty()) return;
    load(h);  // the mean is that of what was stored, after rounding
    mean_of_rows(s_.rows.data(), head_dim(), count(), head_dim(), f32_row(args_.pooled, b_, h, t_));
  }

  const NormRopePoolArgs& args_;
  const int64_t b_, t_;
  const std::span<const int32_t> tokens_;
  const Scratch& s_;
};

}  // namespace

Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args) {
  std::vector<Scratch> scratch;
  for (int i = 0; i < num_threads(context); ++i) scratch.emplace_back(args);
  const int64_t num_tiles = args.plan->num_tiles();
  parallel_for(context, args.x.shape[0] * num_tiles, [&](int64_t item, int thread) {
    NormRopePool(args, item / num_tiles, item % num_tiles, scratch[static_cast<size_t>(thread)])
        .run();
  });
  return {};
}

}  // namespace vsa::cpu
