// Warnings about what a model will not understand in a prompt.
#include "runtime/text_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/text/clean.h"

namespace vsa::runtime {
namespace {

constexpr size_t kMaxShown = 8;

/// "a, b and 3 more": each once, in order.
std::string list(const std::vector<std::string>& words) {
  std::vector<std::string> distinct;
  for (const std::string& word : words) {
    if (std::ranges::find(distinct, word) == distinct.end()) distinct.push_back(word);
  }
  const size_t shown = std::min(distinct.size(), kMaxShown);
  std::string text = fmt::format(
      "{}", fmt::join(distinct.begin(), distinct.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < distinct.size()) text += fmt::format(" and {} more", distinct.size() - shown);
  return text;
}

/// Lower case in ASCII; words end at white space and punctuation.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_part = is_upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                         static_cast<unsigned char>(c) >= 0x80;
    if (is_part) {
      words.back() += is_upper ? static_cast<char>(c + 32) : c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

std::vector<std::string> text_warnings(const std::string& prompt, const text::Tokens& tokens,
                                       const ModelFolder& model) {
  std::vector<std::string> warnings;
  if (tokens.num_dropped > 0) {
    warnings.push_back(fmt::format("its last {} tokens are ignored, as the model reads only {}",
                                   tokens.num_dropped, model.max_sequence_length));
  }
  if (!tokens.unknown.empty()) {
    // Without </s>.
    const auto all = std::ssize(tokens.ids) - 1 + tokens.num_dropped;
    warnings.push_back(
        fmt::format("{} of its {} pieces are unknown to the tokenizer: {}; the model cannot tell "
                    "them apart",
                    tokens.unknown.size(), all, list(tokens.unknown)));
  }
  const std::set<std::string>& known = model.trained_on.words;
  const Result<std::string> clean = text::clean_prompt(prompt);
  if (known.empty() || !clean.ok()) return warnings;
  const std::vector<std::string> words = words_of(*clean);
  std::vector<std::string> unknown;
  std::ranges::copy_if(words, std::back_inserter(unknown),
                       [&](const std::string& word) { return !known.contains(word); });
  if (!unknown.empty()) {
    warnings.push_back(fmt::format(
        "the model was not trained on {} of its {} words: {}; what it draws for them is arbitrary",
        unknown.size(), words.size(), list(unknown)));
  }
  return warnings;
}

}  // namespace vsa::runtime
