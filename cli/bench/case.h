// The cases that `vsa bench` runs, read from text files. Host-only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/common/command.h"
#include "vsa/tensor.h"
#include "vsa/tiling.h"

namespace vsa::cli {

/// One self-attention of batch 1.
struct BenchCase {
  std::string name;
  Grid grid;
  Tiling tiling;
  bool in_compact_order = false;  ///< tensors hold tile after tile, without padding
  int64_t num_heads = 1, num_kv_heads = 1, head_dim = 128;
  KeepOptions keep{};  ///< as the file says it
  int64_t topk = 1;    ///< kv tiles that a query tile keeps
  DType dtype = DType::kF32;
};

/// Reads a file, or every .txt file of a folder in the order of their names. A line is
///   name grid tile heads kv_heads head_dim keep dtype
/// where keep is a share with a decimal point or a number of tiles; '#' starts a comment.
/// Throws Failure(kInputOutput) naming file, line and field.
std::vector<BenchCase> read_bench_cases(const std::filesystem::path& path);

/// Cuts the video of a case into tiles in that order; along a curve they have as many tokens as the
/// tile of the case, and as large a share of them is kept. Throws Failure(kUsage) for a tile that a
/// curve cannot have.
void set_order(BenchCase& bench_case, TokenOrder order);

}  // namespace vsa::cli
