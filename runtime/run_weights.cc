// The weights of all parts of a run, found by name before anything is computed.
#include "runtime/run_weights.h"

#include <fmt/format.h>

#include "runtime/fill_report.h"
#include "runtime/io/finite.h"
#include "runtime/io/printable.h"
#include "runtime/vae/weights.h"

namespace vsa::runtime {

std::vector<const io::Checkpoint*> RunWeights::files() const {
  std::vector<const io::Checkpoint*> files{&text_file, &transformer_file};
  if (vae_file) files.push_back(&*vae_file);
  return files;
}

Result<std::unique_ptr<RunWeights>> RunWeights::open(const GenerateOptions& options,
                                                     const ModelFolder& model,
                                                     GenerateReport& report) {
  auto weights = std::make_unique<RunWeights>();
  const auto keep = [](Result<io::Checkpoint> opened, io::Checkpoint& file) -> Status {
    VSA_TRY(opened.status());
    file = std::move(*opened);
    return {};
  };
  VSA_TRY(keep(model.open_text_encoder(), weights->text_file));
  VSA_TRY(keep(model.open_transformer(), weights->transformer_file));
  nn::LoadSummary text;
  auto found_text = text::find_umt5_weights(model.text_encoder, weights->text_file, text);
  VSA_TRY(weights->text_file.in_file(found_text.status()));
  weights->text = std::move(*found_text);
  report.text_encoder = weights_report(text, "transformers");

  dit::LoadReport loaded;
  auto found =
      dit::find_weights(model.transformer, weights->transformer_file, loaded, options.loras);
  VSA_TRY(weights->transformer_file.in_file(found.status()));
  weights->transformer = std::move(*found);
  report.transformer = weights_report(loaded.summary, loaded.naming);
  report.transformer.has_gates = loaded.has_gates;
  report.changed_by_loras = loaded.changed;
  for (const dit::LoraSpec& lora : options.loras) {
    const Result<FileReport> file = file_report(model.root, lora.file);
    VSA_TRY(file.status());
    report.loras.push_back({.path = file->path, .strength = lora.strength, .sha256 = file->sha256});
  }

  if (!model.vae) return weights;
  VSA_TRY(keep(model.open_vae(), weights->vae_file.emplace()));
  vae::LoadReport vae;
  VSA_TRY(weights->vae_file->in_file(
      vae::find_weights(*model.vae, vae::Half::kDecoder, *weights->vae_file, vae).status()));
  report.vae = weights_report(vae.summary, vae.naming);
  return weights;
}

void warn_of_weights(const GenerateOptions& options, GenerateReport& report) {
  const bool has_gates = report.transformer.has_gates;
  if (const auto& unused = report.transformer.unused; !unused.empty()) {
    report.warnings.push_back(
        fmt::format("weights: {} tensors of the transformer are not used, the first is {}",
                    unused.size(), io::printable(unused.front())));
  }
  if (!has_gates && options.attention == Attention::kVsa) {
    report.warnings.push_back(
        "gates: the checkpoint has no to_gate_compress; it runs the fine stage alone and was "
        "probably trained dense");
  }
  if (has_gates && options.attention == Attention::kDense) {
    report.warnings.push_back(
        "gates: the checkpoint has to_gate_compress, so dense attention adds gate * coarse");
  }
}

Status explain(const Status& failure, const io::Checkpoint& weights, std::string_view model) {
  if (failure.code() != StatusCode::kInternal) return failure;
  const Status cause = weights.in_file(io::check_finite(weights, model));
  return cause.ok() ? failure : cause;
}

}  // namespace vsa::runtime
