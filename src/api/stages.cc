// The public calls: find the backend, check the arguments, run its function. Host-only.
#include <fmt/format.h>

#include <exception>
#include <new>

#include "src/api/registry.h"
#include "src/core/validate.h"

namespace vsa {
namespace {

/// The arguments as a backend gets them: with the softmax scale filled in, if the call has one.
template <class Args>
Args resolved(const Args& args) {
  Args copy = args;
  if constexpr (requires { copy.scale.value_or(0.0F); }) {
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

/// Asks the call how much workspace it needs, takes that from the context's source, and runs it.
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
  VSA_TRY(validate((*table)->traits, context, args));
  const auto run = (*table)->*entry;
  if (run == nullptr) {
    return unsupported(fmt::format("[{}] backend: expected one that provides it, got {}", operation,
                                   name(context.backend)));
  }
  if (context.workspace_query != nullptr && !(*table)->traits.has_workspace) {
    *context.workspace_query = 0;
    return {};
  }
  const bool takes_workspace = (*table)->traits.has_workspace &&
                               context.workspace_query == nullptr &&
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

#define VSA_DEFINE_CALL(stage, Args, fields)                      \
  Status stage(const Context& context, const Args& args) {        \
    return dispatch(#stage, context, args, &BackendTable::stage); \
  }
VSA_FOR_EACH_STAGE(VSA_DEFINE_CALL)

}  // namespace vsa
