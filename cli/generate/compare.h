// `vsa generate --compare`: the same video through VSA and through dense attention. Host-only.
#pragma once

#include "cli/generate/options.h"
#include "cli/generate/outputs.h"

namespace vsa::cli {

/// Runs VSA, then dense attention with the same seed, and writes beside -o FILE: FILE-dense,
/// FILE-compare (VSA left, dense right), and the same of the report. A contact sheet shows VSA
/// above dense. Prints both times, the kept share, and PSNR and SSIM of every frame.
void run_compare(const SamplingOptions& sampling, const OutputOptions& output, bool json);

}  // namespace vsa::cli
