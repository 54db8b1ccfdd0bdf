// The public stages: find the backend, check the arguments, call its function. Host-only.
#include <fmt/format.h>

#include <new>

#include "src/api/registry.h"
#include "vsa/attention.h"

namespace vsa {
namespace {

/// Calls the table entry `member` of the context's backend, or says why it cannot.
template <class Args>
Status dispatch(std::string_view operation, const Context& context, const Args& args,
                Status (*const BackendTable::*member)(const Context&, const Args&)) {
  const BackendTable* table = find_backend(context.backend);
  if (table == nullptr || table->*member == nullptr) {
    return unsupported(fmt::format("[{}] backend: the {} backend does not provide it", operation,
                                   name(context.backend)));
  }
  try {
    return (table->*member)(context, args);
  } catch (const std::bad_alloc&) {
    return out_of_memory(fmt::format("[{}] not enough memory", operation));
  }
}

}  // namespace

Status tile(const Context& context, const TileArgs& args) {
  return dispatch("tile", context, args, &BackendTable::tile);
}
Status untile(const Context& context, const UntileArgs& args) {
  return dispatch("untile", context, args, &BackendTable::untile);
}
Status pool(const Context& context, const PoolArgs& args) {
  return dispatch("pool", context, args, &BackendTable::pool);
}
Status coarse(const Context& context, const CoarseArgs& args) {
  return dispatch("coarse", context, args, &BackendTable::coarse);
}
Status select(const Context& context, const SelectArgs& args) {
  return dispatch("select", context, args, &BackendTable::select);
}
Status fine(const Context& context, const FineArgs& args) {
  return dispatch("fine", context, args, &BackendTable::fine);
}
Status combine(const Context& context, const CombineArgs& args) {
  return dispatch("combine", context, args, &BackendTable::combine);
}
Status pool_backward(const Context& context, const PoolBackwardArgs& args) {
  return dispatch("pool_backward", context, args, &BackendTable::pool_backward);
}
Status coarse_backward(const Context& context, const CoarseBackwardArgs& args) {
  return dispatch("coarse_backward", context, args, &BackendTable::coarse_backward);
}
Status fine_backward(const Context& context, const FineBackwardArgs& args) {
  return dispatch("fine_backward", context, args, &BackendTable::fine_backward);
}
Status combine_backward(const Context& context, const CombineBackwardArgs& args) {
  return dispatch("combine_backward", context, args, &BackendTable::combine_backward);
}
Status attention_forward(const Context& context, const AttentionArgs& args) {
  return dispatch("attention_forward", context, args, &BackendTable::attention_forward);
}
Status attention_backward(const Context& context, const AttentionBackwardArgs& args) {
  return dispatch("attention_backward", context, args, &BackendTable::attention_backward);
}

}  // namespace vsa
