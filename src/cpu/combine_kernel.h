// combine for one query tile. Host-only.
#pragma once

#include "src/cpu/rows.h"
#include "vsa/stages.h"

namespace vsa::cpu {

/// A gate's rows for one tile, or its constant.
struct GateRows {
  Rows rows;  ///< no data: the constant
  float constant = 0.0F;
  bool is_zero() const { return rows.data == nullptr && constant == 0.0F; }
};

inline GateRows gate_rows(const Gate& gate, int64_t b, int64_t h, const TilePlan& plan, int64_t t) {
  if (gate.is_tensor()) return {.rows = tile_rows(gate.as_tensor(), b, h, plan, t), .constant = 0.0F};
  return {.rows = {}, .constant = gate.as_constant()};
}

struct CombineTile {
  const float* fine_out = nullptr;    ///< [rows, ld]; not read if gate_fine is zero
  int64_t ld = 0;
  const float* coarse_out = nullptr;  ///< [head_dim]; not read if gate_coarse is zero
  GateRows gate_fine, gate_coarse;
  int64_t head_dim = 0;
  MutableRows out;
};

/// out = gate_fine * fine_out + gate_coarse * coarse_out, rounded once.
void combine_tile(const CombineTile& tile);

}  // namespace vsa::cpu
