// The first stage of a run: from prompts to their embeddings. Host-only.
#pragma once

#include "runtime/model_folder.h"
#include "runtime/pipeline.h"
#include "runtime/report.h"
#include "runtime/run_plan.h"
#include "runtime/run_weights.h"
#include "runtime/text/text_embedding.h"
#include "vsa/status.h"

namespace vsa::runtime {

/// Embeddings of both prompts; `negative` is empty without guidance.
struct Texts {
  text::TextEmbedding prompt, negative;
};

/// The encoder runs where the plan says, and lives no longer than the call: the transformer gets
/// its memory.
/// @return errors of the tokenizer and the encoder | IoError (a weight is NaN or infinite)
Result<Texts> encode_texts(const GenerateOptions& options, const ModelFolder& model,
                           const RunPlan& plan, const RunWeights& weights, GenerateReport& report);

}  // namespace vsa::runtime
