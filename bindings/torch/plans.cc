// The list of recent tile plans. Host-only.
#include "bindings/torch/plans.h"

#include <algorithm>
#include <utility>

namespace vsa::torch_ops {

SharedPlan PlanCache::get(Description description, const std::function<TilePlan()>& build) {
  {
    const std::lock_guard lock(mutex_);
    if (SharedPlan plan = find(description)) return plan;
  }
  // Built without the lock, so that no other thread waits for it. If two threads build the same
  // plan, both use the one that was finished first.
  SharedPlan built = std::make_shared<const TilePlan>(build());
  const std::lock_guard lock(mutex_);
  if (SharedPlan plan = find(description)) return plan;
  const int64_t tokens = built->num_valid_tokens();
  if (tokens > max_tokens_) return built;
  while (entries_.size() >= max_plans_ || tokens_ + tokens > max_tokens_) drop_oldest();
  entries_.push_front({std::move(description), built});
  tokens_ += tokens;
  return built;
}

SharedPlan PlanCache::find(const Description& description) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.description == description;
  });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().plan;
}

void PlanCache::drop_oldest() {
  tokens_ -= entries_.back().plan->num_valid_tokens();
  entries_.pop_back();
}

}  // namespace vsa::torch_ops
