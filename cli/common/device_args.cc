// The arguments of each call, copied to the device.
#include "cli/common/device.h"

namespace vsa::cli {

TileArgs on_device(Device& device, TileArgs args) {
  args.x = device.in(args.x);
  args.tiled = device.out(args.tiled);
  return args;
}

UntileArgs on_device(Device& device, UntileArgs args) {
  args.tiled = device.in(args.tiled);
  args.x = device.out(args.x);
  return args;
}

NormRopePoolArgs on_device(Device& device, NormRopePoolArgs args) {
  args.x = device.in_out(args.x);
  args.weight = device.in(args.weight);
  args.rstd = device.in(args.rstd);
  args.cos = device.in(args.cos);
  args.sin = device.in(args.sin);
  args.pooled = device.out(args.pooled);
  return args;
}

PoolArgs on_device(Device& device, PoolArgs args) {
  args.x = device.in(args.x);
  args.pooled = device.out(args.pooled);
  return args;
}

CoarseArgs on_device(Device& device, CoarseArgs args) {
  args.q_pooled = device.in(args.q_pooled);
  args.k_pooled = device.in(args.k_pooled);
  args.v_pooled = device.in(args.v_pooled);
  args.coarse_scores = device.out(args.coarse_scores);
  args.coarse_out = device.out(args.coarse_out);
  return args;
}

SelectArgs on_device(Device& device, SelectArgs args) {
  args.coarse_scores = device.in(args.coarse_scores);
  args.lut = device.out(args.lut);
  return args;
}

FineArgs on_device(Device& device, FineArgs args) {
  args.q = device.in(args.q);
  args.k = device.in(args.k);
  args.v = device.in(args.v);
  args.lut = device.in(args.lut);
  args.out = device.out(args.out);
  args.lse = device.out(args.lse);
  return args;
}

CombineArgs on_device(Device& device, CombineArgs args) {
  args.fine_out = device.in(args.fine_out);
  args.coarse_out = device.in(args.coarse_out);
  args.gate_coarse = device.in(args.gate_coarse);
  args.gate_fine = device.in(args.gate_fine);
  args.out = device.out(args.out);
  return args;
}

PoolBackwardArgs on_device(Device& device, PoolBackwardArgs args) {
  args.dpooled = device.in(args.dpooled);
  args.dx = device.out(args.dx);
  return args;
}

CoarseBackwardArgs on_device(Device& device, CoarseBackwardArgs args) {
  args.q_pooled = device.in(args.q_pooled);
  args.k_pooled = device.in(args.k_pooled);
  args.v_pooled = device.in(args.v_pooled);
  args.dcoarse_out = device.in(args.dcoarse_out);
  args.dq_pooled = device.out(args.dq_pooled);
  args.dk_pooled = device.out(args.dk_pooled);
  args.dv_pooled = device.out(args.dv_pooled);
  return args;
}

FineBackwardArgs on_device(Device& device, FineBackwardArgs args) {
  args.q = device.in(args.q);
  args.k = device.in(args.k);
  args.v = device.in(args.v);
  args.lut = device.in(args.lut);
  args.out = device.in(args.out);
  args.lse = device.in(args.lse);
  args.dout = device.in(args.dout);
  args.dq = device.out(args.dq);
  args.dk = device.out(args.dk);
  args.dv = device.out(args.dv);
  return args;
}

CombineBackwardArgs on_device(Device& device, CombineBackwardArgs args) {
  args.fine_out = device.in(args.fine_out);
  args.coarse_out = device.in(args.coarse_out);
  args.gate_coarse = device.in(args.gate_coarse);
  args.gate_fine = device.in(args.gate_fine);
  args.dout = device.in(args.dout);
  args.dfine_out = device.out(args.dfine_out);
  args.dcoarse_out = device.out(args.dcoarse_out);
  args.dgate_coarse = device.out(args.dgate_coarse);
  args.dgate_fine = device.out(args.dgate_fine);
  return args;
}

AttentionArgs on_device(Device& device, AttentionArgs args) {
  args.q = device.in(args.q);
  args.k = device.in(args.k);
  args.v = device.in(args.v);
  args.q_pooled = device.in(args.q_pooled);
  args.k_pooled = device.in(args.k_pooled);
  args.v_pooled = device.in(args.v_pooled);
  args.coarse_out = device.in(args.coarse_out);
  args.gate_coarse = device.in(args.gate_coarse);
  args.gate_fine = device.in(args.gate_fine);
  args.lut = device.in(args.lut);
  args.out = device.out(args.out);
  args.lse = device.out(args.lse);
  args.fine_out = device.out(args.fine_out);
  args.lut_out = device.out(args.lut_out);
  return args;
}

AttentionBackwardArgs on_device(Device& device, AttentionBackwardArgs args) {
  args.q = device.in(args.q);
  args.k = device.in(args.k);
  args.v = device.in(args.v);
  args.gate_coarse = device.in(args.gate_coarse);
  args.gate_fine = device.in(args.gate_fine);
  args.lut = device.in(args.lut);
  args.lse = device.in(args.lse);
  args.fine_out = device.in(args.fine_out);
  args.dout = device.in(args.dout);
  args.dq = device.out(args.dq);
  args.dk = device.out(args.dk);
  args.dv = device.out(args.dv);
  args.dgate_coarse = device.out(args.dgate_coarse);
  args.dgate_fine = device.out(args.dgate_fine);
  return args;
}

}  // namespace vsa::cli
