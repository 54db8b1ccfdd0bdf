// A run that goes on where an interrupted one stopped. Host-only.
#pragma once

#include "runtime/latents.h"
#include "runtime/report.h"
#include "runtime/sampler/sampler.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// Whether the latents are of this run: all that made_by_json says of both must be equal, but for
/// the software, the names of things and the speed of playing. Weights are compared by their hash;
/// while the report has none yet, or a run that was stopped before its first step had none, they
/// are not.
/// @return InvalidArgument naming the first setting that differs
Status check_same_run(const Latents& begun, const GenerateReport& run);

/// Copies the values of the interrupted run to `latents` and its state to the sampler.
/// @param sampler  new
/// @return errors of check_same_run and sampler::Sampler::resume
Status resume(const Latents& begun, const GenerateReport& run, Latents& latents,
              sampler::Sampler& sampler);

/// Notes in the latents how far the sampler is and, if that is not the end, its state.
void keep_progress(const sampler::Sampler& sampler, Latents& latents);

}  // namespace vsa::runtime
