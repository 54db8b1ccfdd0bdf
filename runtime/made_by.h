// What a run writes into its videos about itself. Host-only.
#pragma once

#include <string>

#include "runtime/report.h"
#include "runtime/video/metadata.h"

namespace vsa::runtime {

/// All that is needed to repeat the run, as JSON on one line: version, prompts, seed, model (its
/// folder's name and the SHA-256 of its transformer), settings as resolved. No paths and no times,
/// so the same run gives the same text.
std::string made_by_json(const GenerateReport& report);

/// The prompt as title, made_by_json as comment.
video::Metadata video_metadata(const GenerateReport& report);

}  // namespace vsa::runtime
