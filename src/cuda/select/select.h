// The select kernel and its parameters. Host-only.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "src/cuda/support/call.h"
#include "src/cuda/support/rows.h"
#include "vsa/stages.h"

namespace vsa::cuda {

struct SelectParams {
  ConstRows scores;                  // f32 [B, H, Nq, Nk]
  const uint32_t* forced = nullptr;  // bit j of word j / 32: column j is forced; null: none
  const uint32_t* dense = nullptr;   // the same of rows
  Lut lut;
  int32_t num_kv_tiles = 0;
  int32_t num_kept = 0;  // of a row that is not dense, forced columns included
  /// Whether the previous kernel on the stream is coarse_out_kernel. It neither writes what select
  /// reads nor reads what select writes, so both may run at the same time.
  bool beside_coarse_out = false;
};

/// SelectOptions on the device, their lists as bit masks.
class SelectRules {
 public:
  SelectRules(Carver& workspace, const SelectOptions& options, int64_t num_q_tiles,
              int64_t num_kv_tiles);
  /// Enqueues the upload of the lists.
  Status build(const CallSite& at) const;
  SelectParams params(const ConstTensor& scores, const Lut& lut) const;

 private:
  const SelectOptions& options_;
  int64_t num_q_tiles_, num_kv_tiles_;
  int32_t* forced_ = nullptr;
  int32_t* dense_ = nullptr;
};

/// Enqueues the kernel that writes the look-up table.
Status run_select(const CallSite& at, const SelectParams& params);

/// Copies a table to one whose pitch is at least as large; the tail becomes -1.
Status run_copy_lut(const CallSite& at, const ConstLut& from, const Lut& to);

}  // namespace vsa::cuda
