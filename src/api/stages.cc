// The public calls: find the backend, check the arguments, run its function. Host-only.
#include <fmt/format.h>

#include <exception>
#include <new>

#include "src/api/registry.h"
#include "src/core/validate.h"
#include "vsa/attention.h"
#include "vsa/norm_rope_pool.h"

namespace vsa {
namespace {

/// The arguments as a backend gets them: with the softmax scale filled in, if the call has one.
template <class Args>
Args resolved(const Args& args) {
  Args copy = args;
  if constexpr (requires { copy.scale; }) {
    if constexpr (requires { copy.q; }) {
      copy.scale = args.scale.value_or(default_scale(args.q.shape[3]));
    } else {
      copy.scale = args.scale.value_or(default_scale(args.q_pooled.shape[3]));
    }
  }
  return copy;
}

template <class Args>
using Entry = Status (*BackendTable::*)(const Context&, const Args&);

/// Runs with what the context's source gives of the workspace that the call needs.
template <class Args>
Status run_with_taken(std::string_view operation, const Context& context, const Args& args,
                      Status (*run)(const Context&, const Args&)) {
  int64_t size_bytes = 0;
  Context with = context;
  with.workspace_query = &size_bytes;
  VSA_TRY(run(with, args));
  with.workspace_query = nullptr;
  with.workspace = context.workspace_source.take(context.workspace_source.user, size_bytes);
  if (size_bytes > 0 && with.workspace.data == nullptr) {
    return out_of_memory(
        fmt::format("[{}] workspace: expected {} bytes, got none", operation, size_bytes));
  }
  return run(with, args);
}

template <class Args>
Status checked_run(std::string_view operation, const Context& context, const Args& args,
                   Entry<Args> entry) {
  const Result<const BackendTable*> table = usable_backend(operation, context.backend);
  VSA_TRY(table.status());
  VSA_TRY(validate(context, args));
  const auto run = (*table)->*entry;
  if (run == nullptr) {
    return unsupported(fmt::format("[{}] backend: expected one that provides it, got {}", operation,
                                   name(context.backend)));
  }
  if (context.workspace_query != nullptr && !(*table)->has_workspace) {
    *context.workspace_query = 0;
    return {};
  }
  const bool takes_workspace = (*table)->has_workspace && context.workspace_query == nullptr &&
                               context.workspace_source.take != nullptr;
  const Args full = resolved(args);
  return takes_workspace ? run_with_taken(operation, context, full, run) : run(context, full);
}

/// Runs the table entry `entry` of the context's backend, or says why it cannot. Never throws.
template <class Args>
Status dispatch(const char* operation, const Context& context, const Args& args,
                Entry<Args> entry) {
  try {
    return checked_run(operation, context, args, entry);
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::string("[") + operation + "] not enough memory");
  } catch (const std::exception& e) {
    return {StatusCode::kInternal, fmt::format("[{}] {}", operation, e.what())};
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
Status norm_rope_pool(const Context& context, const NormRopePoolArgs& args) {
  return dispatch("norm_rope_pool", context, args, &BackendTable::norm_rope_pool);
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
