// The schemas of torch.ops.vsa and their kernels. Fake kernels and autograd are registered by
// vsa_torch/_registration.py: the stable ABI has neither. Host-only.
#include <torch/csrc/stable/library.h>

#include "bindings/torch/ops.h"

// A list that may be empty is optional, and the package passes None: see OptionalInts in convert.h.
STABLE_TORCH_LIBRARY(vsa, m) {
  m.def(
      "video_sparse_attention(Tensor query, Tensor key, Tensor value, Tensor? gate_coarse, "
      "Tensor? gate_fine, float gate_coarse_weight, float gate_fine_weight, SymInt[]? grid, "
      "int[] tile_shape, SymInt topk, float? scale, SymInt[]? prefix, SymInt[]? q_tile_len, "
      "SymInt[]? kv_tile_len, str coarse_rounding, bool save_for_backward) -> (Tensor out, Tensor "
      "lse, "
      "Tensor fine_out, Tensor lut, Tensor lut_count)");
  m.def(
      "inference(Tensor query, Tensor key, Tensor value, Tensor? gate_coarse, Tensor? gate_fine, "
      "str options, Tensor? q_pooled=None, Tensor? k_pooled=None) -> Tensor");
  m.def(
      "video_sparse_attention_backward(Tensor dout, Tensor query, Tensor key, Tensor value, "
      "Tensor? gate_coarse, Tensor? gate_fine, float gate_coarse_weight, float gate_fine_weight, "
      "Tensor lse, Tensor fine_out, Tensor lut, Tensor lut_count, SymInt[]? grid, int[] "
      "tile_shape, "
      "float? scale, SymInt[]? prefix, SymInt[]? q_tile_len, SymInt[]? kv_tile_len) -> (Tensor "
      "dquery, "
      "Tensor dkey, Tensor dvalue, Tensor dgate_coarse, Tensor dgate_fine)");
  m.def(
      "coarse_select(Tensor query, Tensor key, Tensor value, SymInt[]? grid, int[] tile_shape, "
      "SymInt topk, float? scale, SymInt[]? prefix, str coarse_rounding) -> "
      "(Tensor coarse_out, Tensor lut, Tensor lut_count)");
  m.def(
      "coarse_select_backward(Tensor dcoarse_out, Tensor query, Tensor key, Tensor value, "
      "SymInt[]? grid, int[] tile_shape, float? scale, SymInt[]? prefix) -> (Tensor dquery, Tensor "
      "dkey, "
      "Tensor dvalue)");
  m.def(
      "block_sparse_attention(Tensor query, Tensor key, Tensor value, Tensor lut, "
      "Tensor lut_count, int[] tile_shape, SymInt[]? q_grid, SymInt[]? kv_grid, SymInt[]? "
      "q_tile_len, "
      "SymInt[]? kv_tile_len, float? scale) -> (Tensor out, Tensor lse)");
  m.def(
      "block_sparse_attention_backward(Tensor dout, Tensor query, Tensor key, Tensor value, "
      "Tensor out, Tensor lse, Tensor lut, Tensor lut_count, int[] tile_shape, SymInt[]? q_grid, "
      "SymInt[]? kv_grid, SymInt[]? q_tile_len, SymInt[]? kv_tile_len, float? scale) -> (Tensor "
      "dquery, "
      "Tensor dkey, Tensor dvalue)");
  m.def("tile(Tensor x, SymInt[]? grid, int[] tile_shape, SymInt[]? prefix) -> Tensor");
  m.def("untile(Tensor tiled, SymInt[]? grid, int[] tile_shape, SymInt[]? prefix) -> Tensor");
  m.def(
      "norm_rope_pool(Tensor(a!) x, SymInt[]? grid, int[] tile_shape, SymInt[]? prefix, str norm, "
      "float eps=1e-6, Tensor? weight=None, Tensor? rstd=None, Tensor? cos=None, Tensor? sin=None, "
      "bool pool=True) -> Tensor");
  m.def(
      "residual_norm(Tensor(a!) x, Tensor? y=None, Tensor? gate=None, Tensor? scale=None, Tensor? "
      "shift=None, float eps=1e-6, bool norm=True, ScalarType? out_dtype=None) -> Tensor");
  m.def("implements(str device_type, str operation) -> bool");
}

// The same functions for CPU and CUDA: the device of the tensors decides on the backend. libvsa
// refuses what a backend or a build lacks, and its message says what that is.
template <class Library>
void implement(Library& m) {
  m.impl("video_sparse_attention", TORCH_BOX(&vsa::torch_ops::video_sparse_attention));
  m.impl("inference", TORCH_BOX(&vsa::torch_ops::inference));
  m.impl("video_sparse_attention_backward",
         TORCH_BOX(&vsa::torch_ops::video_sparse_attention_backward));
  m.impl("coarse_select", TORCH_BOX(&vsa::torch_ops::coarse_select));
  m.impl("coarse_select_backward", TORCH_BOX(&vsa::torch_ops::coarse_select_backward));
  m.impl("block_sparse_attention", TORCH_BOX(&vsa::torch_ops::block_sparse_attention));
  m.impl("block_sparse_attention_backward",
         TORCH_BOX(&vsa::torch_ops::block_sparse_attention_backward));
  m.impl("tile", TORCH_BOX(&vsa::torch_ops::tile));
  m.impl("untile", TORCH_BOX(&vsa::torch_ops::untile));
  m.impl("norm_rope_pool", TORCH_BOX(&vsa::torch_ops::norm_rope_pool));
  m.impl("residual_norm", TORCH_BOX(&vsa::torch_ops::residual_norm));
}

STABLE_TORCH_LIBRARY_IMPL(vsa, CPU, m) { implement(m); }
STABLE_TORCH_LIBRARY_IMPL(vsa, CUDA, m) { implement(m); }
// `implements` takes no tensor, so no device decides which kernel runs.
STABLE_TORCH_LIBRARY_IMPL(vsa, CompositeExplicitAutograd, m) {
  m.impl("implements", TORCH_BOX(&vsa::torch_ops::implements));
}
