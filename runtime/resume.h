// Continues an interrupted run. Host-only.
#pragma once

#include "runtime/latents.h"
#include "runtime/report.h"
#include "runtime/sampler/sampler.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// Whether the latents are of this run: everything that made_by_json says of both must be equal,
/// except for the version of the software, the model's name, the frame rate and the steps done.
/// Weights are compared by their hash, unless the report has no hash yet, or the latents have none
/// because the run was stopped before its first step.
/// @return InvalidArgument naming the first setting that differs
Status check_same_run(const Latents& begun, const GenerateReport& run);

/// Copies the values of the interrupted run to `latents` and its state to the sampler.
/// @param sampler  new
/// @return errors of check_same_run and sampler::Sampler::resume
Status resume(const Latents& begun, const GenerateReport& run, Latents& latents,
              sampler::Sampler& sampler);

/// Stores in the latents how many steps the sampler has taken and, if steps are left, its state.
void keep_progress(const sampler::Sampler& sampler, Latents& latents);

}  // namespace vsa::runtime
