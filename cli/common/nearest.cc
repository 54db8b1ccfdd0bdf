// Finds the known word nearest to a mistyped one. Host-only.
#include "cli/common/nearest.h"

#include <algorithm>

namespace vsa::cli {
namespace {

/// Optimal string alignment: letters inserted, removed, replaced, or swapped with the next.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(const std::string& typed,
                                   const std::vector<std::string>& words) {
  const auto begins = [&](const std::string& word) {
    return typed.size() >= 4 && word.starts_with(typed);
  };
  if (std::ranges::count_if(words, begins) == 1) return *std::ranges::find_if(words, begins);
  if (words.empty() || typed.size() > 40) return std::nullopt;
  const auto found = std::ranges::min_element(
      words, {}, [&](const std::string& word) { return distance(typed, word); });
  const size_t letters = found->size() - std::min(found->find_first_not_of('-'), found->size());
  if (distance(typed, *found) > std::max<size_t>(1, letters / 3)) return std::nullopt;
  return *found;
}

}  // namespace vsa::cli
