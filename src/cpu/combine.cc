// combine and its gradients as stages of their own. Host-only.
#include "src/cpu/combine_kernel.h"
#include "src/cpu/cpu.h"
#include "src/cpu/float_buffer.h"
#include "src/cpu/padding.h"
#include "src/cpu/parallel.h"

namespace vsa::cpu {

Status combine(const Context& context, const CombineArgs& args) {
  const TilePlan& plan = *args.q_plan;
  const int64_t num_tiles = plan.num_tiles();
  const int64_t head_dim = args.out.shape[3];
  const int64_t tile_floats = plan.tile_tokens() * head_dim;
  const FloatBuffer scratch(num_threads(context) * tile_floats);
  zero_padding(args.out, plan);
  parallel_for(context, args.out.shape[0] * args.out.shape[1] * num_tiles,
               [&](int64_t item, int thread) {
                 const int64_t b = item / num_tiles / args.out.shape[1];
                 const int64_t h = item / num_tiles % args.out.shape[1];
                 const int64_t t = item % num_tiles;
                 CombineTile work{.fine_out = scratch.data() + thread * tile_floats,
                                  .ld = head_dim,
                                  .gate_fine = gate_rows(args.gate_fine, b, h, plan, t),
                                  .gate_coarse = gate_rows(args.gate_coarse, b, h, plan, t),
                                  .head_dim = head_dim,
                                  .out = tile_rows(args.out, b, h, plan, t)};
                 if (!args.gate_fine.is_zero()) {
                   load_rows(tile_rows(args.fine_out, b, h, plan, t), head_dim,
                             scratch.data() + thread * tile_floats, head_dim);
                 }
                 if (!args.gate_coarse.is_zero()) {
                   work.coarse_out = static_cast<const float*>(args.coarse_out.data) +
                                     row_offset(args.coarse_out, b, h, t);
                 }
                 combine_tile(work);
               });
  return {};
}

Status combine_backward(const Context& context, const CombineBackwardArgs& args) {
  const TilePlan& plan = *args.q_plan;
  const int64_t num_tiles = plan.num_tiles();
  zero_padding(args.dfine_out, plan);
  zero_padding(args.dgate_fine, plan);
  zero_padding(args.dgate_coarse, plan);
  parallel_for(
      context, args.dout.shape[0] * args.dout.shape[1] * num_tiles, [&](int64_t item, int) {
        const int64_t b = item / num_tiles / args.dout.shape[1];
        const int64_t h = item / num_tiles % args.dout.shape[1];
        const int64_t t = item % num_tiles;
        CombineBackwardTile work{.dout = tile_rows(args.dout, b, h, plan, t),
                                 .fine_out = tile_rows(args.fine_out, b, h, plan, t),
                                 .gate_fine = gate_rows(args.gate_fine, b, h, plan, t),
                                 .gate_coarse = gate_rows(args.gate_coarse, b, h, plan, t),
                                 .head_dim = args.dout.shape[3],
                                 .dfine_out = tile_rows(args.dfine_out, b, h, plan, t),
                                 .dgate_fine = tile_rows(args.dgate_fine, b, h, plan, t),
                                 .dgate_coarse = tile_rows(args.dgate_coarse, b, h, plan, t)};
        if (!args.coarse_out.empty()) {
          work.coarse_out = static_cast<const float*>(args.coarse_out.data) +
                            row_offset(args.coarse_out, b, h, t);
        }
        if (!args.dcoarse_out.empty()) {
          work.dcoarse_out =
              static_cast<float*>(args.dcoarse_out.data) + row_offset(args.dcoarse_out, b, h, t);
        }
        combine_backward_tile(work);
      });
  return {};
}

}  // namespace vsa::cpu
