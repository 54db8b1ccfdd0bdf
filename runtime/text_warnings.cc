// Warnings about what a model will not understand in a prompt.
#include "runtime/text_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/io/ascii.h"
#include "runtime/text/clean.h"

namespace vsa::runtime {
namespace {

constexpr size_t kMaxShown = 8;
constexpr size_t kMaxWordBytes = 40;  // of the longest words of English half as many

/// The word, or its beginning and "..." if it is long; characters of UTF-8 are not cut.
std::string shortened(const std::string& word) {
  if (word.size() <= kMaxWordBytes) return word;
  size_t end = kMaxWordBytes;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xC0U) == 0x80U) --end;
  return word.substr(0, end) + "...";
}

/// "a, b and 3 more": each once, in order.
std::string list(const std::vector<std::string>& words) {
  std::vector<std::string> distinct;
  for (const std::string& word : words) {
    const std::string shown = shortened(word);
    if (std::ranges::find(distinct, shown) == distinct.end()) distinct.push_back(shown);
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
    const char l = io::lower(c);
    const bool is_part =
        (l >= 'a' && l <= 'z') || (l >= '0' && l <= '9') || static_cast<unsigned char>(l) >= 0x80;
    if (is_part) {
      words.back() += l;
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
