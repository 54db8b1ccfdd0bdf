// combine and its gradients for one query tile. Host-only.
#pragma once

#include "src/cpu/support/rows.h"
#include "vsa/stages.h"

namespace vsa::cpu {

/// A gate's rows for one tile, or its constant.
struct GateRows {
  Rows rows;  ///< no data: the constant
  float constant = 0.0F;
  bool is_zero() const { return rows.data == nullptr && constant == 0.0F; }
};

inline GateRows gate_rows(const Gate& gate, int64_t b, int64_t h, const TilePlan& plan, int64_t t) {
  if (gate.is_tensor())
    return {.rows = tile_rows(gate.as_tensor(), b, h, plan, t), .constant = 0.0F};
  return {.rows = {}, .constant = gate.as_constant()};
}

struct CombineTile {
  const float* fine_out = nullptr;  ///< [rows, ld]; not read if gate_fine is zero
  int64_t ld = 0;
  const float* coarse_out = nullptr;  ///< [head_dim]; not read if gate_coarse is zero
  GateRows gate_fine, gate_coarse;
  int64_t head_dim = 0;
  MutableRows out;
};

/// out = gate_fine * fine_out + gate_coarse * coarse_out, rounded once.
void combine_tile(const CombineTile& tile);

struct CombineBackwardTile {
  Rows dout;
  Rows fine_out;                      ///< read for dgate_fine only
  const float* coarse_out = nullptr;  ///< [head_dim]; read for dgate_coarse only
  GateRows gate_fine, gate_coarse;
  int64_t head_dim = 0;
  MutableRows dfine_out, dgate_fine, dgate_coarse;  ///< no data: not wanted
  float* dcoarse_out = nullptr;                     ///< [head_dim]; null: not wanted
};

/// dfine_out_s = gate_fine_s * dout_s          dcoarse_out = sum over s of gate_coarse_s * dout_s
/// dgate_fine_s = fine_out_s * dout_s          dgate_coarse_s = coarse_out * dout_s
void combine_backward_tile(const CombineBackwardTile& tile);

}  // namespace vsa::cpu
