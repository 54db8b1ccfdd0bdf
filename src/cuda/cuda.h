// The stages of the CUDA backend, as its table lists them. Host-only.
#pragma once

#include "vsa/attention.h"
#include "vsa/norm_rope_pool.h"

namespace vsa::cuda {

Status tile(const Context& context, const TileArgs& args);
Status untile(const Context& context, const UntileArgs& args);
Status pool(const Context& context, const PoolArgs& args);
Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args);
Status coarse(const Context& context, const CoarseArgs& args);
Status select(const Context& context, const SelectArgs& args);
Status fine(const Context& context, const FineArgs& args);
Status combine(const Context& context, const CombineArgs& args);
Status attention_forward(const Context& context, const AttentionArgs& args);

Status pool_backward(const Context& context, const PoolBackwardArgs& args);
Status coarse_backward(const Context& context, const CoarseBackwardArgs& args);
Status fine_backward(const Context& context, const FineBackwardArgs& args);
Status combine_backward(const Context& context, const CombineBackwardArgs& args);
Status attention_backward(const Context& context, const AttentionBackwardArgs& args);

}  // namespace vsa::cuda
