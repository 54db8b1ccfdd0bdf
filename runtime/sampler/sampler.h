// From a velocity to the next latents: what all samplers have in common. Host-only.
//
// Flow matching: x = (1 - sigma) x0 + sigma noise, and the model predicts v = noise - x0.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/buffer.h"
#include "runtime/sampler/schedule.h"
#include "vsa/status.h"

namespace vsa::sampler {

/// A tensor that a sampler carries from step to step, as long as x.
struct StateTensor {
  std::string name;
  std::span<const float> values;
};

/// One run. Steps are taken in order; a run that was interrupted goes on with the same bits, from
/// its x and state() after the last whole step.
class Sampler {
 public:
  virtual ~Sampler() = default;

  const Schedule& schedule() const { return schedule_; }
  int64_t steps_done() const { return steps_done_; }

  /// x of sigmas[steps_done()] becomes that of the next level.
  /// @param v  the model's prediction for x and timesteps[steps_done()], guided
  /// @return InvalidArgument if all steps are done, or of other sizes than the run's
  Status step(std::span<const float> v, std::span<float> x);

  /// What a later run must be given, beside x, to go on from here; it cannot be computed again
  /// without the model. UniPC has the last corrected x and one or two predictions of x0; the others
  /// have nothing: few-step draws its noise from the seed. Valid until the next step.
  std::vector<StateTensor> state() const;

  /// Makes a new sampler one that has done `steps_done` steps.
  /// @param state  what state() gave then, in any order
  /// @return InvalidArgument: steps_done is not 0 to all, or a tensor is missing, too many or of
  ///         another size
  Status resume(int64_t steps_done, std::span<const StateTensor> state);

 protected:
  /// A tensor of state().
  struct Carry {
    const char* name = nullptr;
    int64_t from = 1;  ///< the number of steps after which the next one reads it
  };
  /// @param carries  zeros in a new run
  Sampler(Schedule schedule, int64_t size, std::span<const Carry> carries);
  float* carried(size_t index) { return carried_[index].values.data(); }

 private:
  /// Step `index` of schedule(), with checked sizes.
  virtual void move(int64_t index, std::span<const float> v, std::span<float> x) = 0;

  Schedule schedule_;
  int64_t size_ = 0;
  int64_t steps_done_ = 0;
  struct Carried {
    Carry carry;
    nn::Buffer values;
  };
  std::vector<Carried> carried_;
};

/// Tensors of the size of x that a sampler of this kind keeps or, few-step, takes for noise.
int64_t num_extra_tensors(SchedulerKind kind);

/// @param size  elements of x
/// @param seed  of the noise that few-step adds: step i takes the stream i + 1 (noise.h)
/// Throws std::bad_alloc.
std::unique_ptr<Sampler> make_sampler(Schedule schedule, int64_t size, uint64_t seed);

}  // namespace vsa::sampler
