// The one place where arguments of a call are checked, for every entrance and backend. Host-only.
#pragma once

#include "vsa/attention.h"
#include "vsa/norm_rope_pool.h"

namespace vsa {

/// Whether the arguments are what stages.h and attention.h ask for, on the backend of `context`.
/// Reads the lists and tables among them, no tensor; touches no output.
/// @return InvalidArgument | Unsupported (dtype or head_dim that this backend lacks)
/// Cost: one read of the look-up table, if there is one.
Status validate(const Context& context, const TileArgs& args);
Status validate(const Context& context, const UntileArgs& args);
Status validate(const Context& context, const PoolArgs& args);
Status validate(const Context& context, const PoolBackwardArgs& args);
Status validate(const Context& context, const NormRopePoolArgs& args);
Status validate(const Context& context, const CoarseArgs& args);
Status validate(const Context& context, const CoarseBackwardArgs& args);
Status validate(const Context& context, const SelectArgs& args);
Status validate(const Context& context, const FineArgs& args);
Status validate(const Context& context, const FineBackwardArgs& args);
Status validate(const Context& context, const CombineArgs& args);
Status validate(const Context& context, const CombineBackwardArgs& args);
Status validate(const Context& context, const AttentionArgs& args);
Status validate(const Context& context, const AttentionBackwardArgs& args);

/// The softmax scale where the caller gives none: 1 / sqrt(head_dim).
float default_scale(int64_t head_dim);

}  // namespace vsa
