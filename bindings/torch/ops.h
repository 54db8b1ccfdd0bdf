// The operators of torch.ops.vsa on CPU and CUDA tensors, forward and backward; schemas in
// library.cc. Host-only.
//
// `tile_shape` are three edges, or four numbers: see Arguments::plan.
// Token tensors are [B, S, H, D], tile tensors [B, H, N, D], lse [B, H, S], tables as in vsa/lut.h.
// Outputs are new and contiguous.
#pragma once

#include <string>
#include <tuple>

#include "bindings/torch/convert.h"

namespace vsa::torch_ops {

using OptionalTensor = std::optional<TorchTensor>;
using OptionalDouble = std::optional<double>;
using Tensors2 = std::tuple<TorchTensor, TorchTensor>;
using Tensors3 = std::tuple<TorchTensor, TorchTensor, TorchTensor>;
using Tensors5 = std::tuple<TorchTensor, TorchTensor, TorchTensor, TorchTensor, TorchTensor>;

/// Both sides are in raster order of the grid behind the prefix, or each in tile order with its
/// tile_len. Returns (out, lse, fine_out, lut, lut_count); fine_out is of shape [0] unless
/// `save_for_backward`.
Tensors5 video_sparse_attention(const TorchTensor& query, const TorchTensor& key,
                                const TorchTensor& value, const OptionalTensor& gate_coarse,
                                const OptionalTensor& gate_fine, double gate_coarse_weight,
                                double gate_fine_weight, const OptionalInts& grid,
                                const Ints& tile_shape, int64_t topk, OptionalDouble scale,
                                const OptionalInts& prefix, const OptionalInts& q_tile_len,
                                const OptionalInts& kv_tile_len, const std::string& coarse_rounding,
                                bool save_for_backward);
/// The first output alone, with little work on the host: for calls that run for a shorter time than
/// the host needs to prepare them. `options` are words with
/// one space between: f h w of the grid, f h w of a tile, the number of the TokenOrder, topk, scale
/// or "none", weight of gate_coarse, weight of gate_fine, coarse_rounding, then the length of each
/// prefix segment.
/// q_pooled and k_pooled are means that norm_rope_pool has computed, [B, H, N, D].
TorchTensor inference(const TorchTensor& query, const TorchTensor& key, const TorchTensor& value,
                      const OptionalTensor& gate_coarse, const OptionalTensor& gate_fine,
                      const std::string& options, const OptionalTensor& q_pooled,
                      const OptionalTensor& k_pooled);
/// (dquery, dkey, dvalue, dgate_coarse, dgate_fine); shape [0] for a gate that is no tensor.
Tensors5 video_sparse_attention_backward(
    const TorchTensor& dout, const TorchTensor& query, const TorchTensor& key,
    const TorchTensor& value, const OptionalTensor& gate_coarse, const OptionalTensor& gate_fine,
    double gate_coarse_weight, double gate_fine_weight, const TorchTensor& lse,
    const TorchTensor& fine_out, const TorchTensor& lut, const TorchTensor& lut_count,
    const OptionalInts& grid, const Ints& tile_shape, OptionalDouble scale,
    const OptionalInts& prefix, const OptionalInts& q_tile_len, const OptionalInts& kv_tile_len);

/// (coarse_out, lut, lut_count)
Tensors3 coarse_select(const TorchTensor& query, const TorchTensor& key, const TorchTensor& value,
                       const OptionalInts& grid, const Ints& tile_shape, int64_t topk,
                       OptionalDouble scale, const OptionalInts& prefix,
                       const std::string& coarse_rounding);
/// (dquery, dkey, dvalue)
Tensors3 coarse_select_backward(const TorchTensor& dcoarse_out, const TorchTensor& query,
                                const TorchTensor& key, const TorchTensor& value,
                                const OptionalInts& grid, const Ints& tile_shape,
                                OptionalDouble scale, const OptionalInts& prefix);

/// (out, lse). Each side is in raster order of its grid, or in tile order with its tile_len.
Tensors2 block_sparse_attention(const TorchTensor& query, const TorchTensor& key,
                                const TorchTensor& value, const TorchTensor& lut,
                                const TorchTensor& lut_count, const Ints& tile_shape,
                                const OptionalInts& q_grid, const OptionalInts& kv_grid,
                                const OptionalInts& q_tile_len, const OptionalInts& kv_tile_len,
                                OptionalDouble scale);
/// (dquery, dkey, dvalue)
Tensors3 block_sparse_attention_backward(const TorchTensor& dout, const TorchTensor& query,
                                         const TorchTensor& key, const TorchTensor& value,
                                         const TorchTensor& out, const TorchTensor& lse,
                                         const TorchTensor& lut, const TorchTensor& lut_count,
                                         const Ints& tile_shape, const OptionalInts& q_grid,
                                         const OptionalInts& kv_grid,
                                         const OptionalInts& q_tile_len,
                                         const OptionalInts& kv_tile_len, OptionalDouble scale);

/// Whether this build has the call of libvsa on tensors of that type of device, "cpu" or "cuda".
bool implements(const std::string& device_type, const std::string& operation);

/// [B, S, H, D] to [B, num_tiles * tile_tokens, H, D], and back.
TorchTensor tile(const TorchTensor& x, const OptionalInts& grid, const Ints& tile_shape,
                 const OptionalInts& prefix);
TorchTensor untile(const TorchTensor& tiled, const OptionalInts& grid, const Ints& tile_shape,
                   const OptionalInts& prefix);

/// `x` in place, and the means of its tiles [B, H, N, D]; shape [0] unless `pool`. norm: "none",
/// "head" or "all_heads"; weight [1, 1, H, D], rstd [B, S, 1 or H, 1], cos and sin [1, S, 1, D /
/// 2].
TorchTensor norm_rope_pool(const TorchTensor& x, const OptionalInts& grid, const Ints& tile_shape,
                           const OptionalInts& prefix, const std::string& norm, double eps,
                           const OptionalTensor& weight, const OptionalTensor& rstd,
                           const OptionalTensor& cos, const OptionalTensor& sin, bool pool);
/// `x` in place if there is a `y`, and its norm; shape [0] unless `norm`. gate, scale and shift are
/// [B, 1, H, D]; out_dtype is by default that of y, else that of x.
TorchTensor residual_norm(const TorchTensor& x, const OptionalTensor& y, const OptionalTensor& gate,
                          const OptionalTensor& scale, const OptionalTensor& shift, double eps,
                          bool norm, std::optional<ScalarType> out_dtype);

}  // namespace vsa::torch_ops
