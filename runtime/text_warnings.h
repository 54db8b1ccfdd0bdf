// Warnings about what a model will not understand in a prompt. Host-only.
#pragma once

#include <string>
#include <vector>

#include "runtime/model_folder.h"
#include "runtime/text/tokenizer.h"

namespace vsa::runtime {

/// Sentences for the user: tokens that were cut off, pieces that the tokenizer's vocabulary lacks,
/// and words that the model says it was not trained on (TrainedOn::words, if it has any).
/// @param prompt  UTF-8, as the user gave it
std::vector<std::string> text_warnings(const std::string& prompt, const text::Tokens& tokens,
                                       const ModelFolder& model);

}  // namespace vsa::runtime
