// What all samplers have in common, and which there are. Host-only.
#include "runtime/sampler/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "runtime/sampler/few_step.h"
#include "runtime/sampler/flow_euler.h"
#include "runtime/sampler/unipc.h"

namespace vsa::sampler {

Sampler::Sampler(Schedule schedule, int64_t size, std::span<const Carry> carries)
    : schedule_(std::move(schedule)), size_(size) {
  for (const Carry& carry : carries) {
    carried_.push_back({.carry = carry, .values = nn::Buffer(size_)});
    std::ranges::fill(carried_.back().values.span(), 0.0F);
  }
}

Status Sampler::step(std::span<const float> v, std::span<float> x) {
  if (steps_done_ == schedule_.steps()) {
    return invalid_argument(
        fmt::format("[sampler] step: expected at most {}, got one more", steps_done_));
  }
  if (std::ssize(v) != size_ || std::ssize(x) != size_) {
    return invalid_argument(fmt::format("[sampler] x and v: expected {} elements, got {} and {}",
                                        size_, x.size(), v.size()));
  }
  move(steps_done_, v, x);
  ++steps_done_;
  return {};
}

std::vector<StateTensor> Sampler::state() const {
  std::vector<StateTensor> state;
  for (const Carried& tensor : carried_) {
    if (steps_done_ >= tensor.carry.from) {
      state.push_back({.name = tensor.carry.name, .values = tensor.values.span()});
    }
  }
  return state;
}

Status Sampler::resume(int64_t steps_done, std::span<const StateTensor> state) {
  if (steps_done < 0 || steps_done > schedule_.steps()) {
    return invalid_argument(fmt::format("[sampler] steps_done: expected 0 to {}, got {}",
                                        schedule_.steps(), steps_done));
  }
  size_t wanted = 0;
  for (Carried& tensor : carried_) {
    if (steps_done < tensor.carry.from) continue;
    ++wanted;
    const auto found = std::ranges::find(state, tensor.carry.name, &StateTensor::name);
    const int64_t got = found == state.end() ? 0 : std::ssize(found->values);
    if (got != size_) {
      return invalid_argument(
          fmt::format("[sampler] state: expected {} elements of {} after {} steps of {}, got {}",
                      size_, tensor.carry.name, steps_done, name(schedule_.kind), got));
    }
    std::ranges::copy(found->values, tensor.values.data());
  }
  if (wanted != state.size()) {
    return invalid_argument(
        fmt::format("[sampler] state: expected {} tensors after {} steps of {}, got {}", wanted,
                    steps_done, name(schedule_.kind), state.size()));
  }
  steps_done_ = steps_done;
  return {};
}

int64_t num_extra_tensors(SchedulerKind kind) {
  switch (kind) {
    case SchedulerKind::kEuler:
    case SchedulerKind::kEulerPlain:
      return 0;
    case SchedulerKind::kFewStep:
      return 1;
    case SchedulerKind::kUniPc:
    case SchedulerKind::kUniPcWan:
    case SchedulerKind::kUniPcFastVideo:
      break;
  }
  return 3;
}

std::unique_ptr<Sampler> make_sampler(Schedule schedule, int64_t size, uint64_t seed) {
  switch (schedule.kind) {
    case SchedulerKind::kEuler:
    case SchedulerKind::kEulerPlain:
      return std::make_unique<FlowEuler>(std::move(schedule), size);
    case SchedulerKind::kFewStep:
      return std::make_unique<FewStep>(std::move(schedule), size, seed);
    case SchedulerKind::kUniPc:
    case SchedulerKind::kUniPcWan:
    case SchedulerKind::kUniPcFastVideo:
      break;
  }
  return std::make_unique<UniPc>(std::move(schedule), size);
}

}  // namespace vsa::sampler
