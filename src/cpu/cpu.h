// The CPU backend's entries: Highway kernels, one binary for all instruction sets, and OpenMP over
// independent work items. Host-only.
//
// What lies where: targets.h isa.cc (choice of instruction set), parallel.h, rows.cc (tensors to
// fp32 scratch and back), pack.cc gemm.cc (the matrix product), *_kernel.cc (one tile's work,
// compiled for every target), and the files of these entries, which only hand tiles to kernels.
#pragma once

#include "vsa/attention.h"

namespace vsa::cpu {

// Arguments are those of vsa/stages.h and vsa/attention.h, already validated, `scale` set.
Status tile(const Context& context, const TileArgs& args);
Status untile(const Context& context, const UntileArgs& args);
Status pool(const Context& context, const PoolArgs& args);
Status pool_backward(const Context& context, const PoolBackwardArgs& args);
Status coarse(const Context& context, const CoarseArgs& args);
Status coarse_backward(const Context& context, const CoarseBackwardArgs& args);
Status select(const Context& context, const SelectArgs& args);
Status fine(const Context& context, const FineArgs& args);
Status fine_backward(const Context& context, const FineBackwardArgs& args);
Status combine(const Context& context, const CombineArgs& args);
Status combine_backward(const Context& context, const CombineBackwardArgs& args);
Status attention_forward(const Context& context, const AttentionArgs& args);
Status attention_backward(const Context& context, const AttentionBackwardArgs& args);

}  // namespace vsa::cpu
