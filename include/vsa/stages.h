// The seven stages of Video Sparse Attention, each on its own, forward and backward. Host-only.
//
// Shapes: B batch, H query heads, H_kv key/value heads (H % H_kv == 0), Sq and Sk sequence lengths,
// Nq and Nk tiles, D head_dim. Every tensor is [B, H, S, D] by strides, last axis contiguous.
// Token tensors (q, k, v, out, gates and their gradients) are f32, bf16 or f16, all of one dtype;
// tile tensors (pooled, scores, coarse_out and their gradients) and lse are f32. On the reference
// backend everything may also be f64. head_dim is a multiple of 8 up to 256 (cuda: 64 or 128). A
// token tensor may be in any order that its TilePlan describes; positions that belong to no tile
// (padding) are never read, and are written as 0 in outputs.
//
// Inputs may be broadcast (stride 0) and may be views of one another. Outputs have positive strides
// that keep their elements apart, and share no memory with any other argument: nothing runs in
// place. Lists and tables are checked to the last entry; of a LUT row only the first `count` are
// read.
//
// All calls validate every argument before touching memory: on failure outputs are as they were.
// They are thread-safe, give the same bits for any number of threads, and are synchronous except on
// the cuda backend (Context). Errors: InvalidArgument (the message names the argument), Unsupported
// (this backend lacks it), OutOfMemory. Paper: arXiv 2505.13389. Specification: src/reference.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "vsa/backend.h"
#include "vsa/lut.h"
#include "vsa/status.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa {

/// An elementwise weight of `combine`, or the same number everywhere. There is no default: what an
/// absent gate means differs between models (1 in FastVideo's Wan operator, 0 in its H3 backend and
/// for training-free use), so the caller says which.
class Gate {
 public:
  Gate() = default;  ///< unset: refused by every call that takes a gate
  static Gate tensor(const ConstTensor& t) { return Gate(Kind::kTensor, t, 0.0F); }
  static Gate constant(float c) { return Gate(Kind::kConstant, {}, c); }
  static Gate zero() { return constant(0.0F); }
  static Gate one() { return constant(1.0F); }

  bool is_set() const { return kind_ != Kind::kUnset; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  /// True if the branch can be left out: the constant 0.
  bool is_zero() const { return kind_ == Kind::kConstant && constant_ == 0.0F; }
  const ConstTensor& as_tensor() const { return tensor_; }
  float as_constant() const { return constant_; }

 private:
  enum class Kind { kUnset, kTensor, kConstant };
  Gate(Kind kind, const ConstTensor& t, float c) : kind_(kind), tensor_(t), constant_(c) {}
  Kind kind_ = Kind::kUnset;
  ConstTensor tensor_;
  float constant_ = 0.0F;
};

// --- tile / untile -----------------------------------------------------------------------------

/// Brings a token tensor into tile order. Backward of `untile`, and the other way round.
struct TileArgs {
  ConstTensor x;  ///< [B, H, plan->seq_len(), D], any order
  const TilePlan* plan = nullptr;
  Tensor tiled;  ///< [B, H, plan->padded_len(), D], tile order; padding slots are written as 0
};
/// Cost: one read and one write of x.
Status tile(const Context& context, const TileArgs& args);

/// Brings a tile-order tensor back into the plan's order.
struct UntileArgs {
  ConstTensor tiled;  ///< [B, H, plan->padded_len(), D], tile order; padding is not read
  const TilePlan* plan = nullptr;
  Tensor x;  ///< [B, H, plan->seq_len(), D]; positions of no tile are written as 0
};
Status untile(const Context& context, const UntileArgs& args);

// --- pool --------------------------------------------------------------------------------------

/// Mean of every tile over its valid tokens; the mean of an empty tile is 0.
struct PoolArgs {
  ConstTensor x;  ///< [B, H, S, D] token tensor
  const TilePlan* plan = nullptr;
  Tensor pooled;  ///< [B, H, N, D] f32
};
/// Cost: one read of x.
Status pool(const Context& context, const PoolArgs& args);

struct PoolBackwardArgs {
  ConstTensor dpooled;  ///< [B, H, N, D] f32
  const TilePlan* plan = nullptr;
  Tensor dx;  ///< [B, H, S, D] token tensor: dpooled / tile_len at every valid token
};
Status pool_backward(const Context& context, const PoolBackwardArgs& args);

// --- coarse ------------------------------------------------------------------------------------

/// How the coarse stage rounds on its way. Backward computes without.
enum class CoarseRounding : int {
  kNone = 0,  ///< nothing below f32
  /// As FastVideo, for models that were trained with it: the pooled q, k and v, then q . k, then
  /// scale * (q . k), the probabilities, and coarse_out, each to the nearest bf16. Scores are often
  /// equal then, and `select` takes the lower index.
  kBf16 = 1,
};

/// Attention over pooled tiles: scores = scale * q_pooled . k_pooled, out = softmax(scores)
/// v_pooled, over all kv tiles and not weighted by tile size. The score of a kv tile with no valid
/// token is -inf; with no valid kv tile at all, out is 0.
struct CoarseArgs {
  ConstTensor q_pooled;  ///< [B, H, Nq, D] f32
  ConstTensor k_pooled;  ///< [B, H_kv, Nk, D] f32
  ConstTensor v_pooled;  ///< [B, H_kv, Nk, D] f32
  const TilePlan* kv_plan = nullptr;
  std::optional<float> scale{};  ///< unitless; default 1 / sqrt(D)
  CoarseRounding rounding = CoarseRounding::kNone;
  Tensor coarse_scores{};  ///< [B, H, Nq, Nk] f32; may be empty
  Tensor coarse_out{};     ///< [B, H, Nq, D] f32; may be empty
};
/// Cost: 4*D FLOP per pair of tiles.
Status coarse(const Context& context, const CoarseArgs& args);

struct CoarseBackwardArgs {
  ConstTensor q_pooled, k_pooled, v_pooled;  ///< as in CoarseArgs
  const TilePlan* kv_plan = nullptr;
  std::optional<float> scale{};
  ConstTensor dcoarse_out;  ///< [B, H, Nq, D] f32
  Tensor dq_pooled;         ///< [B, H, Nq, D] f32
  Tensor dk_pooled;         ///< [B, H_kv, Nk, D] f32
  Tensor dv_pooled;         ///< [B, H_kv, Nk, D] f32
};
Status coarse_backward(const Context& context, const CoarseBackwardArgs& args);

// --- select ------------------------------------------------------------------------------------

/// Which kv tiles a row keeps: the forced ones, and of the others exactly topk (or all, if there
/// are fewer) by (score descending, index ascending). -0 equals +0; NaN ranks below -inf. Top-k is
/// a constant in backward.
struct SelectOptions {
  int64_t topk = 1;                           ///< 1 to Nk: tiles kept besides the forced ones
  std::span<const int32_t> forced_columns{};  ///< kv tiles that every row keeps; ascending, unique
  std::span<const int32_t> dense_rows{};  ///< query tiles that keep everything; ascending, unique
};

struct SelectArgs {
  ConstTensor coarse_scores;  ///< [B, H, Nq, Nk] f32
  SelectOptions options;
  Lut lut;  ///< dims {B, H, Nq, pitch >= lut_pitch(options, Nk)}
};
Status select(const Context& context, const SelectArgs& args);

/// The largest count that a row of `select` can have: the least pitch of its Lut.
int64_t lut_pitch(const SelectOptions& options, int64_t num_kv_tiles);

// --- fine --------------------------------------------------------------------------------------

/// Token-level attention of each query tile to the valid tokens of the kv tiles in its LUT row:
///   out_i = sum_j softmax_j(scale * q_i . k_j) v_j
/// A row with no key gives out = 0 and lse = -inf.
struct FineArgs {
  ConstTensor q;     ///< [B, H, Sq, D]
  ConstTensor k, v;  ///< [B, H_kv, Sk, D]
  const TilePlan* q_plan = nullptr;
  const TilePlan* kv_plan = nullptr;
  ConstLut lut;                  ///< [B, H, Nq, pitch]
  std::optional<float> scale{};  ///< default 1 / sqrt(D)
  Tensor out;                    ///< [B, H, Sq, D]
  Tensor lse{};                  ///< [B, H, Sq, 1] f32, natural log, of scaled scores; may be empty
  /// How many further keys equal the last token of kv_plan, and its value: they count wherever its
  /// tile is kept, and need not be there. A padded text, whose padding rows are equal, takes its
  /// valid rows and one more.
  int64_t last_key_repeats = 0;
};
/// Cost: 4*D FLOP per valid pair; no S x S memory.
/// @return Unsupported on the cuda backend for last_key_repeats > 0 unless all blocks of 64 tokens
///         of kv_plan are full but the last one, which is not
Status fine(const Context& context, const FineArgs& args);

struct FineBackwardArgs {
  ConstTensor q, k, v;  ///< as in FineArgs
  const TilePlan* q_plan = nullptr;
  const TilePlan* kv_plan = nullptr;
  ConstLut lut;
  std::optional<float> scale{};
  ConstTensor out;   ///< what `fine` gave
  ConstTensor lse;   ///< what `fine` gave
  ConstTensor dout;  ///< [B, H, Sq, D]; padding is not read
  Tensor dq;         ///< [B, H, Sq, D]
  Tensor dk, dv;     ///< [B, H_kv, Sk, D]
};
/// Cost: 14*D FLOP per valid pair (dq and dk/dv each recompute the probabilities, so neither needs
/// atomics or buffers of full size).
Status fine_backward(const Context& context, const FineBackwardArgs& args);

// --- combine -----------------------------------------------------------------------------------

/// out = gate_fine * fine_out + gate_coarse * broadcast(coarse_out)
struct CombineArgs {
  ConstTensor fine_out;      ///< [B, H, Sq, D]
  ConstTensor coarse_out{};  ///< [B, H, Nq, D] f32; may be empty if gate_coarse.is_zero()
  Gate gate_coarse;          ///< tensor: [B, H, Sq, D], dtype of fine_out
  Gate gate_fine = Gate::one();
  const TilePlan* q_plan = nullptr;
  Tensor out;  ///< [B, H, Sq, D]
};
Status combine(const Context& context, const CombineArgs& args);

struct CombineBackwardArgs {
  ConstTensor fine_out, coarse_out;  ///< as in CombineArgs
  Gate gate_coarse;
  Gate gate_fine = Gate::one();
  const TilePlan* q_plan = nullptr;
  ConstTensor dout;  ///< [B, H, Sq, D]
  Tensor dfine_out;  ///< [B, H, Sq, D]: gate_fine * dout
  /// [B, H, Nq, D] f32: sum over the tile of gate_coarse * dout; may be empty
  Tensor dcoarse_out{};
  Tensor dgate_coarse{};  ///< [B, H, Sq, D]: coarse_out * dout; may be empty
  Tensor dgate_fine{};    ///< [B, H, Sq, D]: fine_out * dout; may be empty
};
Status combine_backward(const Context& context, const CombineBackwardArgs& args);

}  // namespace vsa
