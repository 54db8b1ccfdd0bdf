// The tensors of one bench case, and the calls on them. Host-only.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/bench/case.h"
#include "cli/common/owned_tensor.h"
#include "vsa/attention.h"
#include "vsa/norm_rope_pool.h"
#include "vsa/residual_norm.h"

namespace vsa::cli {

/// [B, S, heads, D] from N(0, 1); the same for the same seed.
OwnedTensor drawn(const BenchCase& c, int64_t heads, uint64_t seed);
inline constexpr uint64_t kSeedOfQ = 1;
/// The residual that residual_norm adds to, in f32 (f64 in a case of f64), from N(0, 1).
OwnedTensor drawn_residual(const BenchCase& c);

/// Inputs drawn from N(0, 1) and room for everything that forward and backward write, all tensors
/// in the order [B, S, H, D]. "full" names the dense case: every query tile keeps every kv tile.
/// Immovable: calls point into it.
struct BenchProblem {
  explicit BenchProblem(const BenchCase& bench_case);
  BenchProblem(const BenchProblem&) = delete;
  BenchProblem& operator=(const BenchProblem&) = delete;

  /// Runs each stage whose outputs the given stages read once on `context`. A stage that the
  /// backend answers with Unsupported is left out. Throws Failure on any other error.
  void prepare(const Context& context, const std::vector<std::string>& stages);
  /// Why the backend cannot run `stage` here, or a stage whose output it reads; empty if no reason
  /// is known.
  std::string refusal(const std::string& stage) const;

  /// From now on, views and calls are of `count` kv heads from `first` on and the query heads that
  /// share them. Until then they are of all.
  void look_at(int64_t first, int64_t count);
  Tensor at(const OwnedTensor& x) const;  ///< `x` has the heads of q or those of k
  Lut at(LutBuffer& table) const;
  ConstLut at(const LutBuffer& table) const;

  TileArgs tile() const;
  UntileArgs untile() const;
  NormRopePoolArgs norm_rope_pool() const;  ///< of all heads, which it norms together
  ResidualNormArgs residual_norm() const;   ///< likewise; y is the tensor `gate`
  PoolArgs pool(const ConstTensor& x, const Tensor& pooled) const;
  CoarseArgs coarse() const;
  SelectArgs select();
  FineArgs fine(bool full) const;
  CombineArgs combine() const;
  AttentionArgs attention();
  PoolBackwardArgs pool_backward() const;
  CoarseBackwardArgs coarse_backward() const;
  FineBackwardArgs fine_backward(bool full) const;
  CombineBackwardArgs combine_backward() const;
  AttentionBackwardArgs attention_backward() const;

  BenchCase c;
  TilePlan plan;
  OwnedTensor q, k, v, gate, dout;
  OwnedTensor tiled, untiled;
  OwnedTensor normed, normed_pooled, cos, sin;        // normed: q until norm_rope_pool has run
  OwnedTensor residual, modulation, residual_normed;  // modulation: gate, scale and shift
  OwnedTensor q_pooled, k_pooled, v_pooled, scores, coarse_out;  // f32
  LutBuffer lut, full_lut, attention_lut;
  OwnedTensor fine_out, lse, full_out, full_lse, combined;
  OwnedTensor out, attention_lse, attention_fine_out;
  OwnedTensor dfine_out, dcoarse_out, dq_pooled, dk_pooled, dv_pooled, pool_dq;
  OwnedTensor dq, dk, dv, dgate;

 private:
  /// The arguments of a call with q, k, v and their plan filled in.
  template <class Args>
  Args on_tokens() const;

  template <class Table>
  Table at_heads(Table table) const;

  /// Runs what makes the outputs of `stage`, unless nothing reads them, or it or what it reads was
  /// refused.
  void run_stage(const std::string& stage, const std::function<Status()>& call);

  int64_t first_head_ = 0, num_heads_;           // kv heads that are looked at
  std::set<std::string> read_;                   // stages whose outputs are read
  std::map<std::string, std::string> refusals_;  // stage -> what the backend said
};

}  // namespace vsa::cli
