// The texts themselves: what a user reads. Codes and names are asserted elsewhere.
#include <gtest/gtest.h>

#include "tests/support/bad_call.h"
#include "tests/support/calls.h"

namespace vsa::test {
namespace {

template <class Setup>
std::string message(std::function<void(Setup&)> spoil) {
  Setup setup;
  spoil(setup);
  return setup.run().message();
}

TEST(ValidateMessages, Golden) {
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.q.shape[2] = 30; }),
            "[fine] q: expected f32|bf16|f16 [B,H,32,D], got f32 [2,4,30,8]");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.k.dtype = DType::kBF16; }),
            "[fine] k: expected f32 [2,H,40,8], got bf16 [2,2,40,8]");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.v.data = nullptr; }),
            "[fine] v: expected f32 [2,2,40,8], got null data");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.q.dtype = DType::kF64; }),
            "[fine] q: expected f32|bf16|f16 [B,H,32,D] on the cpu backend, got f64 [2,4,32,8]; "
            "the reference backend takes f64");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.k.shape[1] = 3; }),
            "[fine] k: expected a number of heads that divides 4, got 3");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.out.stride[2] = 4; }),
            "[fine] out: expected positive strides that keep its elements apart, got strides "
            "[1024,8,4,1] for shape [2,4,32,8]");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.k.stride[3] = 2; }),
            "[fine] k: expected stride 1 on the last axis, got 2");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.scale = -1.0F / 0.0F; }),
            "[fine] scale: expected a finite number, got -inf; leave it out for 1/sqrt(head_dim)");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.args.kv_plan = nullptr; }),
            "[fine] kv_plan: expected a tile plan, got null");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.context.num_threads = -2; }),
            "[fine] num_threads: expected 0 (the default) to 1024, got -2");
  EXPECT_EQ(message<FineCall>([](auto& s) { s.context.backend = BackendId::kHip; }),
            "[fine] backend: expected one that can run here, got hip; not compiled in: "
            "this version of vsa has no HIP backend yet");
  EXPECT_EQ(message<FineCall>([](auto& s) { const_cast<int32_t*>(s.args.lut.count)[6] = 9; }),
            "[fine] lut: expected counts of 0 to 3 (the pitch), got 9 in row [0,1,2]");
  EXPECT_EQ(message<FineCall>([](auto& s) { const_cast<int32_t*>(s.args.lut.index)[18] = 6; }),
            "[fine] lut: expected ascending unique kv tiles from 0 to 5, got 6 after nothing in "
            "row [0,1,2]");
  EXPECT_EQ(message<FineBackwardCall>([](auto& s) { s.args.lse = ConstTensor(); }),
            "[fine_backward] lse: expected f32 [2,4,32,1], got null data; backward needs what "
            "forward wrote there");
  EXPECT_EQ(message<SelectCall>([](auto& s) { s.args.options.topk = 0; }),
            "[select] topk: expected 1 to 6 (all kv tiles), got 0");
  EXPECT_EQ(message<SelectCall>([](auto& s) { s.forced[1] = 0; }),
            "[select] forced_columns: expected ascending unique indices from 0 to 5, got 0 at [1] "
            "after 1");
  EXPECT_EQ(message<CombineCall>([](auto& s) { s.args.gate_coarse = Gate(); }),
            "[combine] gate_coarse: expected a tensor or a constant, got an unset gate; what an "
            "absent gate means differs between models, so say 0 or 1");
  EXPECT_EQ(message<CombineCall>([](auto& s) { s.args.out = {}; }),
            "[combine] out: expected f32 [2,4,32,8], got null data");
  EXPECT_EQ(
      message<TileCall>([](auto& s) { s.args.tiled.data = const_cast<void*>(s.args.x.data); }),
      "[tile] tiled: expected memory of its own, got an overlap with x");
}

}  // namespace
}  // namespace vsa::test
