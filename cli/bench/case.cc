// Parses the case files of `vsa bench`. Host-only.
#include "cli/bench/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "cli/common/command.h"
#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForm = "name grid tile heads kv_heads head_dim keep dtype";

KeepOptions keep_of(const std::string& text) {
  KeepOptions keep;
  if (text.find('.') == std::string::npos) {
    keep.topk =
        parse_whole("keep", text, {.least = 1, .description = "a share or a number of tiles"});
  } else {
    keep.keep = parse_number("keep", text,
                             {.least = std::numeric_limits<double>::denorm_min(),
                              .most = 1.0,
                              .description = "a share above 0 and at most 1.0"});
  }
  return keep;
}

BenchCase parse_case(const std::vector<std::string>& fields) {
  if (fields.size() != 8)
    fail_usage(fmt::format("expected {}, got {} fields", kForm, fields.size()));
  const auto count = [&](size_t i, const char* what) {
    return parse_whole(what, fields[i], {.least = 1, .most = std::numeric_limits<int32_t>::max()});
  };
  BenchCase c{.name = fields[0],
              .grid = parse_grid("grid", fields[1]),
              .tiling = {.tile = parse_tile("tile", fields[2])},
              .num_heads = count(3, "heads"),
              .num_kv_heads = count(4, "kv_heads"),
              .head_dim = count(5, "head_dim"),
              .keep = keep_of(fields[6]),
              .topk = 1,
              .dtype = parse_dtype("dtype", fields[7])};
  if (c.num_heads % c.num_kv_heads != 0) fail_usage("kv_heads: expected a divisor of heads");
  c.topk = c.keep.topk_of(take(TilePlan::grid(c.grid, c.tiling)).num_tiles());
  return c;
}

void read_file(const fs::path& path, std::vector<BenchCase>& cases) {
  std::ifstream file(path);
  if (!file) {
    throw Failure(ExitCode::kInputOutput, fmt::format("--cases {}: cannot be read", path.string()),
                  "the source tree of vsa has cases in bench/cases");
  }
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    if (fields.empty()) continue;
    try {
      cases.push_back(parse_case(fields));
    } catch (const Failure& e) {
      throw Failure(ExitCode::kInputOutput,
                    fmt::format("{}:{}: {}", path.string(), number, e.what()));
    }
  }
}

}  // namespace

std::vector<BenchCase> read_bench_cases(const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    }
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  std::vector<BenchCase> cases;
  for (const fs::path& file : files) read_file(file, cases);
  if (cases.empty()) {
    throw Failure(ExitCode::kInputOutput, fmt::format("--cases {}: holds no case", path.string()));
  }
  for (const BenchCase& c : cases) {
    if (std::ranges::count(cases, c.name, &BenchCase::name) > 1) {
      throw Failure(ExitCode::kInputOutput,
                    fmt::format("--cases {}: two cases named {}", path.string(), c.name));
    }
  }
  return cases;
}

void set_order(BenchCase& c, TokenOrder order) {
  c.tiling.order = order;
  const Result<TilePlan> plan = TilePlan::grid(c.grid, c.tiling);
  if (!plan.ok()) {
    fail_usage(fmt::format("--order {}: expected cases that it can cut, got {}: {}", name(order),
                           c.name, plain(plan.status().message())),
               "--case chooses cases");
  }
  c.topk = c.keep.topk_of((*plan).num_tiles());
}

}  // namespace vsa::cli
