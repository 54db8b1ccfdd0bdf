// combine: the weighted sum of both branches. Host-only.
//
//   out_s = gate_fine_s * fine_out_s + gate_coarse_s * coarse_out_t     s a valid token of tile t
//
// A gate that is the constant 0 removes its branch: what it would multiply is not read.
#include "src/core/element.h"
#include "src/reference/reference.h"

namespace vsa::reference {
namespace {

/// The gate's row for token (b, h, s), head_dim numbers.
Row gate_row(const Gate& gate, int64_t b, int64_t h, int64_t s, int64_t head_dim) {
  if (gate.is_tensor()) return load_row(gate.as_tensor(), b, h, s);
  return Row(static_cast<size_t>(head_dim), static_cast<double>(gate.as_constant()));
}

Row product(const Row& x, const Row& y) {
  Row z(x.size());
  for (size_t d = 0; d < z.size(); ++d) z[d] = x[d] * y[d];
  return z;
}

}  // namespace

Status combine(const Context& /*context*/, const CombineArgs& args) {
  const int64_t head_dim = args.out.shape[3];
  fill(args.out, 0.0);
  for (int64_t b = 0; b < args.out.shape[0]; ++b) {
    for (int64_t h = 0; h < args.out.shape[1]; ++h) {
      for (int64_t t = 0; t < args.q_plan->num_tiles(); ++t) {
        for (const int32_t s : args.q_plan->tokens(t)) {
          Row out(static_cast<size_t>(head_dim), 0.0);
          if (!args.gate_fine.is_zero()) {
            const Row gate = gate_row(args.gate_fine, b, h, s, head_dim);
            add_scaled(out, 1.0, product(gate, load_row(args.fine_out, b, h, s)));
          }
          if (!args.gate_coarse.is_zero()) {
            const Row gate = gate_row(args.gate_coarse, b, h, s, head_dim);
            add_scaled(out, 1.0, product(gate, load_row(args.coarse_out, b, h, t)));
          }
          store_row(args.out, b, h, s, out);
        }
      }
    }
  }
  return {};
}

// dfine_out_s = gate_fine_s * dout_s        dcoarse_out_t = sum_{s in t} gate_coarse_s * dout_s
// dgate_fine_s = fine_out_s * dout_s        dgate_coarse_s = coarse_out_t * dout_s
Status combine_backward(const Context& /*context*/, const CombineBackwardArgs& args) {
  const int64_t head_dim = args.dout.shape[3];
  fill(args.dfine_out, 0.0);
  if (!args.dgate_fine.empty()) fill(args.dgate_fine, 0.0);
  if (!args.dgate_coarse.empty()) fill(args.dgate_coarse, 0.0);
  for (int64_t b = 0; b < args.dout.shape[0]; ++b) {
    for (int64_t h = 0; h < args.dout.shape[1]; ++h) {
      for (int64_t t = 0; t < args.q_plan->num_tiles(); ++t) {
        Row dcoarse_out(static_cast<size_t>(head_dim), 0.0);
        for (const int32_t s : args.q_plan->tokens(t)) {
          const Row dout = load_row(args.dout, b, h, s);
          const Row gate_fine = gate_row(args.gate_fine, b, h, s, head_dim);
          const Row gate_coarse = gate_row(args.gate_coarse, b, h, s, head_dim);
          store_row(args.dfine_out, b, h, s, product(gate_fine, dout));
          add_scaled(dcoarse_out, 1.0, product(gate_coarse, dout));
          if (!args.dgate_fine.empty()) {
            store_row(args.dgate_fine, b, h, s, product(load_row(args.fine_out, b, h, s), dout));
          }
          if (!args.dgate_coarse.empty()) {
            store_row(args.dgate_coarse, b, h, s,
                      product(load_row(args.coarse_out, b, h, t), dout));
          }
        }
        if (!args.dcoarse_out.empty()) store_row(args.dcoarse_out, b, h, t, dcoarse_out);
      }
    }
  }
  return {};
}

}  // namespace vsa::reference
