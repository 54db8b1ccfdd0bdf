// The first stage of a run: from prompts to their embeddings.
#include "runtime/text_stage.h"

#include <fmt/format.h>

#include "runtime/device/memory.h"
#include "runtime/io/mmap.h"
#include "runtime/nn/elementwise.h"
#include "runtime/text/cpu/umt5_steps.h"
#include "runtime/text/device/umt5_steps.h"
#include "runtime/text/umt5.h"
#include "runtime/text_warnings.h"
#include "runtime/timer.h"

namespace vsa::runtime {
namespace {

Status check_finite(const text::TextEmbedding& embedding, const io::Checkpoint& weights) {
  if (nn::all_finite(embedding.rows.span())) return {};
  return explain(Status(StatusCode::kInternal,
                        "[generate] text encoder: expected finite values, got NaN or infinity"),
                 weights, "text encoder");
}

Result<std::unique_ptr<text::Umt5Steps>> make_steps(const GenerateOptions& options,
                                                    const RunPlan& plan,
                                                    const text::Umt5Weights& weights) {
  if (!plan.on_device) return text::cpu::make_steps(weights);
  auto memory = device::Memory::of(options.backend, options.device);
  VSA_TRY(memory.status());
  return text::device::make_steps(weights, std::move(*memory));
}

}  // namespace

Result<Texts> encode_texts(const GenerateOptions& options, const ModelFolder& model,
                           const RunPlan& plan, const RunWeights& weights, GenerateReport& report) {
  const Timer timer(report.text_ms);
  const bool guided = plan.passes() == 2;
  const Result<text::Tokenizer> tokenizer = model.open_tokenizer();
  VSA_TRY(tokenizer.status());
  const auto prompt = tokenizer->encode(options.prompt, model.max_sequence_length);
  const auto negative = tokenizer->encode(options.negative_prompt, model.max_sequence_length);
  VSA_TRY(prompt.status());
  VSA_TRY(negative.status());
  const auto warn = [&](const char* which, const std::string& text, const text::Tokens& tokens) {
    for (const std::string& warning : text_warnings(text, tokens, model)) {
      report.warnings.push_back(fmt::format("{}: {}", which, warning));
    }
  };
  warn("prompt", options.prompt, *prompt);
  if (guided) warn("negative prompt", options.negative_prompt, *negative);
  auto steps = make_steps(options, plan, weights.text);
  VSA_TRY(steps.status());
  text::Umt5Encoder encoder(weights.text, std::move(*steps));

  const int64_t layers = model.text_encoder.num_layers;
  Progress progress{.stage = Progress::Stage::kText, .total = guided ? 2 * layers : layers};
  const text::EncodeControl control{.on_layer =
                                        [&](int64_t) {
                                          ++progress.done;
                                          if (options.on_progress) options.on_progress(progress);
                                        },
                                    .cancel = options.cancel};
  const auto encode = [&](const text::Tokens& tokens, text::TextEmbedding& to) -> Status {
    auto embedded = encoder.encode(tokens.ids, model.max_sequence_length, control);
    VSA_TRY(embedded.status());
    to = std::move(*embedded);
    return check_finite(to, weights.text_file);
  };
  Texts texts;
  VSA_TRY(encode(*prompt, texts.prompt));
  if (guided) VSA_TRY(encode(*negative, texts.negative));
  // Nothing reads them again: so the peak is that of the larger stage, not of the sum.
  for (const auto& [name, tensor] : weights.text_file.tensors()) io::release_pages(tensor.bytes);
  return texts;
}

}  // namespace vsa::runtime
