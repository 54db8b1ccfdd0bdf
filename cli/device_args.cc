// The arguments of each call, copied to the device.
#include "cli/device.h"

namespace vsa::cli {

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

AttentionArgs on_device(Device& device, AttentionArgs args) {
  args.q = device.in(args.q);
  args.k = device.in(args.k);
  args.v = device.in(args.v);
  args.gate_coarse = device.in(args.gate_coarse);
  args.gate_fine = device.in(args.gate_fine);
  args.lut = device.in(args.lut);
  args.out = device.out(args.out);
  args.lse = device.out(args.lse);
  args.fine_out = device.out(args.fine_out);
  args.lut_out = device.out(args.lut_out);
  return args;
}

}  // namespace vsa::cli
