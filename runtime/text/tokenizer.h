// From a prompt to token ids, by SentencePiece. Host-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vsa/status.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace vsa::text {

/// A prompt as the encoder reads it.
struct Tokens {
  std::vector<int32_t> ids;  ///< ends with </s>
  int64_t num_dropped = 0;   ///< ids from the end of the prompt for which there was no room
  /// Pieces of the prompt that the vocabulary lacks; all of them become the same id.
  std::vector<std::string> unknown;
};

/// A SentencePiece model (spiece.model). Normalisation (NFKC and so on) is the model's own.
class Tokenizer {
 public:
  /// @return IoError if the file is missing or not a SentencePiece model, or has no end-of-sequence
  ///         piece
  static Result<Tokenizer> load(const std::filesystem::path& model);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  int64_t vocabulary_size() const;

  /// Ids of the cleaned prompt and </s>. A prompt that is too long keeps its first max_tokens - 1
  /// ids and </s>. The empty prompt is just </s>.
  /// @return InvalidArgument if the prompt is not UTF-8 or max_tokens < 1
  Result<Tokens> encode(std::string_view prompt, int64_t max_tokens) const;

 private:
  Tokenizer();
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace vsa::text
