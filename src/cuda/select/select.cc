// The stage select: from its arguments to the launch of its kernel. Host-only.
#include "src/cuda/select/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "src/cuda/plan/plan.h"
#include "src/cuda/plan/schedule.h"
#include "src/cuda/stages.h"
#include "src/cuda/support/numbers.h"

namespace vsa::cuda {
namespace {

Status upload_bits(const CallSite& at, std::span<const int32_t> list, int64_t num_bits,
                   int32_t* to) {
  if (list.empty()) return {};
  std::vector<int32_t> words(static_cast<size_t>(words_for(num_bits)), 0);
  for (const int32_t i : list) {
    words[static_cast<size_t>(i / 32)] |= static_cast<int32_t>(1U << (i % 32));
  }
  return upload(at, words.data(), static_cast<int64_t>(words.size()), to);
}

}  // namespace

SelectRules::SelectRules(Carver& workspace, const SelectOptions& options, int64_t num_q_tiles,
                         int64_t num_kv_tiles)
    : options_(options), num_q_tiles_(num_q_tiles), num_kv_tiles_(num_kv_tiles) {
  if (!options.forced_columns.empty()) forced_ = workspace.take<int32_t>(words_for(num_kv_tiles));
  if (!options.dense_rows.empty()) dense_ = workspace.take<int32_t>(words_for(num_q_tiles));
}

Status SelectRules::build(const CallSite& at) const {
  VSA_TRY(upload_bits(at, options_.forced_columns, num_kv_tiles_, forced_));
  return upload_bits(at, options_.dense_rows, num_q_tiles_, dense_);
}

SelectParams SelectRules::params(const ConstTensor& scores, const Lut& lut) const {
  const auto num_forced = static_cast<int64_t>(options_.forced_columns.size());
  return {.scores = rows_of(scores),
          .forced = reinterpret_cast<const uint32_t*>(forced_),
          .dense = reinterpret_cast<const uint32_t*>(dense_),
          .lut = lut,
          .num_kv_tiles = narrow(num_kv_tiles_),
          .num_kept = narrow(std::min(num_kv_tiles_, options_.topk + num_forced))};
}

Status select(const Context& context, const SelectArgs& args) {
  if (args.coarse_scores.shape[3] >= ScheduleEntry::kMaxBlocks) {
    return unsupported(fmt::format(
        "[select] coarse_scores: expected fewer than 2^28 kv tiles on the cuda backend, got {}",
        args.coarse_scores.shape[3]));
  }
  Call call("select", context);
  const SelectRules rules(call.workspace, args.options, args.coarse_scores.shape[2],
                          args.coarse_scores.shape[3]);
  return call.run(args, [&](const CallSite& at) -> Status {
    VSA_TRY(rules.build(at));
    return run_select(at, rules.params(args.coarse_scores, args.lut));
  });
}

}  // namespace vsa::cuda
