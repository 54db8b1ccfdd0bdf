// Tile plans of recent calls, kept because a plan takes longer to build than a call to enqueue.
// Host-only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "vsa/tiling.h"

namespace vsa::torch_ops {

using SharedPlan = std::shared_ptr<const TilePlan>;

/// The plans that were asked for last. Equal descriptions give the same object, from which libvsa
/// sees that queries and keys have the same order. Thread-safe.
class PlanCache {
 public:
  /// What a plan is made from, as numbers; plans of different kinds start with different ones.
  using Description = std::vector<int64_t>;

  /// At most `max_plans` plans, whose tiles have at most `max_tokens` tokens in all; a larger plan
  /// is built but not kept.
  PlanCache(size_t max_plans, int64_t max_tokens)
      : max_plans_(max_plans), max_tokens_(max_tokens) {}

  /// The plan of that description, from `build` if it is not there. What `build` throws passes.
  SharedPlan get(Description description, const std::function<TilePlan()>& build);

 private:
  struct Entry {
    Description description;
    SharedPlan plan;
  };
  SharedPlan find(const Description& description);
  void drop_oldest();

  const size_t max_plans_;
  const int64_t max_tokens_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last is first
  int64_t tokens_ = 0;
};

}  // namespace vsa::torch_ops
