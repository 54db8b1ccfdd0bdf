// combine and its gradients as stages of their own. Host-only.
#include "src/cpu/combine/combine_kernel.h"
#include "src/cpu/stages.h"
#include "src/cpu/support/float_buffer.h"
#include "src/cpu/support/padding.h"
#include "src/cpu/support/parallel.h"

namespace vsa::cpu {

Status combine(const Context& context, const CombineArgs& args) {
  const TilePlan& plan = *args.q_plan;
  const int64_t head_dim = args.out.shape[3];
  const int64_t tile_floats = plan.tile_tokens() * head_dim;
  const FloatBuffer scratch(num_threads(context) * tile_floats);
  zero_padding(args.out, plan);
  const auto combine_one = [&](int64_t b, int64_t h, int64_t t, int thread) {
    float* const fine_out = scratch.data() + thread * tile_floats;
    const CombineTile work{.fine_out = fine_out,
                           .ld = head_dim,
                           .coarse_out = f32_row(args.coarse_out, b, h, t),
                           .gate_fine = gate_rows(args.gate_fine, b, h, plan, t),
                           .gate_coarse = gate_rows(args.gate_coarse, b, h, plan, t),
                           .head_dim = head_dim,
                           .out = tile_rows(args.out, b, h, plan, t)};
    if (!args.gate_fine.is_zero()) {
      load_rows(tile_rows(args.fine_out, b, h, plan, t), head_dim, fine_out, head_dim);
    }
    combine_tile(work);
  };
  parallel_for_heads(context, args.out, plan.num_tiles(), combine_one);
  return {};
}

Status combine_backward(const Context& context, const CombineBackwardArgs& args) {
  const TilePlan& plan = *args.q_plan;
  zero_padding(args.dfine_out, plan);
  zero_padding(args.dgate_fine, plan);
  zero_padding(args.dgate_coarse, plan);
  parallel_for_heads(
      context, args.dout, plan.num_tiles(), [&](int64_t b, int64_t h, int64_t t, int) {
        combine_backward_tile({.dout = tile_rows(args.dout, b, h, plan, t),
                               .fine_out = tile_rows(args.fine_out, b, h, plan, t),
                               .coarse_out = f32_row(args.coarse_out, b, h, t),
                               .gate_fine = gate_rows(args.gate_fine, b, h, plan, t),
                               .gate_coarse = gate_rows(args.gate_coarse, b, h, plan, t),
                               .head_dim = args.dout.shape[3],
                               .dfine_out = tile_rows(args.dfine_out, b, h, plan, t),
                               .dgate_fine = tile_rows(args.dgate_fine, b, h, plan, t),
                               .dgate_coarse = tile_rows(args.dgate_coarse, b, h, plan, t),
                               .dcoarse_out = f32_row(args.dcoarse_out, b, h, t)});
      });
  return {};
}

}  // namespace vsa::cpu
