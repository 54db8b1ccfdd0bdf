// The stages fine and fine_backward, which run the kernels for the architecture of the call's
// device. Host-only.
#include "src/cuda/fine/fine.h"

#include <fmt/format.h>

#include "src/cuda/combine/combine_backward.h"
#include "src/cuda/family.h"
#include "src/cuda/stages.h"
#include "src/cuda/tile/compact.h"

namespace vsa::cuda {

namespace {

/// Kernels find the last token by its slot, the only one that has rows without a token.
Status check_repeats(std::string_view operation, const FineArgs& args) {
  constexpr int32_t kBlock = 64;
  const TilePlan& plan = *args.kv_plan;
  const int64_t last = plan.num_tiles() - 1;
  bool alone = plan.tile_len(last) % kBlock != 0 && plan.tokens(last).back() == plan.seq_len() - 1;
  for (int64_t tile = 0; tile < last; ++tile) alone &= plan.tile_len(tile) % kBlock == 0;
  if (alone || args.last_key_repeats == 0) return {};
  return unsupported(
      fmt::format("[{}] last_key_repeats: expected 0 on the cuda backend unless all blocks of {} "
                  "tokens of kv_plan are full but the last one, got {}",
                  operation, kBlock, args.last_key_repeats));
}

}  // namespace

bool is_fusable(const ConstTensor& t) {
  int64_t contiguous = t.shape[3];
  for (size_t axis = 3; axis-- > 0;) {
    if (t.shape[axis] > 1 && t.stride[axis] != contiguous) return false;
    contiguous *= t.shape[axis];
  }
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

Status fine(const Context& context, const FineArgs& args) {
  Call call("fine", context);
  VSA_TRY(check_repeats(call.operation(), args));
  const PlanTables plans(call.operation(), call.workspace, args.q_plan, args.kv_plan);
  const auto fine =
      family_for(args.q.data).fine(call.workspace, plans, args.lut.dims, args.q.shape[3]);
  CompactCopies compact(call.workspace);
  FineArgs read = args;  // as the kernel reads its tensors
  read.q = compact.of(args.q, plans.q());
  read.k = compact.of(args.k, plans.kv());
  read.v = compact.of(args.v, plans.kv());
  return run(call, plans, args, [&](const CallSite& at) -> Status {
    VSA_TRY(compact.enqueue(at));
    VSA_TRY(fine->prepare(at, plans, args.lut));
    return fine->launch(at, read, plans, {});
  });
}

Status fine_backward(const Context& context, const FineBackwardArgs& args) {
  const auto& [batch, num_heads, seq_len, head_dim] = args.q.shape;
  Call call("fine_backward", context);
  const PlanTables plans(call.operation(), call.workspace, args.q_plan, args.kv_plan);
  const auto backward = family_for(args.q.data).fine_backward(call.workspace, plans, args.lut.dims);
  const Tensor delta = call.workspace.take_f32({batch, num_heads, seq_len, 1});
  CompactCopies compact(call.workspace);
  const FineBackwardInput input{.q = compact.of(args.q, plans.q()),
                                .k = compact.of(args.k, plans.kv()),
                                .v = compact.of(args.v, plans.kv()),
                                .dout = compact.of(args.dout, plans.q()),
                                .lse = args.lse,
                                .delta = static_cast<const float*>(delta.data),
                                .scale = *args.scale,
                                .lut = args.lut,
                                .dq = args.dq,
                                .dk = args.dk,
                                .dv = args.dv};
  return run(call, plans, args, [&](const CallSite& at) -> Status {
    CombineBackwardArgs combine;
    combine.fine_out = args.out;
    combine.dout = args.dout;
    CombineBackwardParams params = combine_backward_params(combine, plans.q());
    params.delta = rows_of(delta);
    VSA_TRY(run_combine_backward(at, params, args.q.dtype, batch));
    VSA_TRY(compact.enqueue(at));
    VSA_TRY(backward->prepare(at, args.lut));
    return backward->launch(at, input, plans);
  });
}

}  // namespace vsa::cuda
