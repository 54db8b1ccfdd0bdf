// From a prompt to token ids, by SentencePiece. Host-only.
#include "runtime/text/tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>

#include "runtime/io/file_kind.h"
#include "runtime/text/clean.h"

namespace vsa::text {

Tokenizer::Tokenizer() : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& model) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(model, failed)) {
    return io_error(fmt::format("[tokenizer] {}: expected a SentencePiece model, got no such file",
                                model.string()));
  }
  Tokenizer tokenizer;
  if (!tokenizer.processor_->Load(model.string()).ok()) {
    // SentencePiece's own message names a line of its source.
    return io_error(fmt::format("[tokenizer] {}: expected a SentencePiece model, got {}",
                                model.string(), io::file_kind(model)));
  }
  if (tokenizer.processor_->eos_id() < 0) {
    return io_error(
        fmt::format("[tokenizer] {}: expected an end-of-sequence piece, got none", model.string()));
  }
  return tokenizer;
}

int64_t Tokenizer::vocabulary_size() const { return processor_->GetPieceSize(); }

Result<Tokens> Tokenizer::encode(std::string_view prompt, int64_t max_tokens) const {
  if (max_tokens < 1) {
    return invalid_argument(
        fmt::format("[tokenize] max_tokens: expected at least 1, got {}", max_tokens));
  }
  const Result<std::string> clean = clean_prompt(prompt);
  if (!clean.ok()) return clean.status();
  std::vector<int> ids;
  std::vector<std::string> pieces;
  auto status = processor_->Encode(*clean, &ids);
  if (status.ok()) status = processor_->Encode(*clean, &pieces);
  if (!status.ok()) {
    return invalid_argument(fmt::format("[tokenize] prompt: {}", status.message()));
  }
  const int64_t num_kept = std::min(std::ssize(ids), max_tokens - 1);
  Tokens tokens{.ids = {ids.begin(), ids.begin() + num_kept},
                .num_dropped = std::ssize(ids) - num_kept,
                .unknown = {}};
  tokens.ids.push_back(processor_->eos_id());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == processor_->unk_id()) tokens.unknown.push_back(std::move(pieces[i]));
  }
  return tokens;
}

}  // namespace vsa::text
