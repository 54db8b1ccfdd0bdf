// What is wrong with a call beyond one tensor: context, plans, scale, gates, heads, memory.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/bad_call.h"
#include "tests/support/calls.h"
#include "tests/support/validate.h"

namespace vsa::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Calls f.template operator()<Setup>(operation) for every entrance.
template <class F>
void for_each_entrance(F f) {
#define VSA_CALL_WITH(stage, Args, fields) f.template operator()<ValidCall<Args>>(#stage);
  VSA_FOR_EACH_STAGE(VSA_CALL_WITH)
#undef VSA_CALL_WITH
}

TEST(ValidateCalls, Context) {
  for_each_entrance([]<class Setup>(std::string_view operation) {
    for (const int threads : {-1, 1025, std::numeric_limits<int>::max()}) {
      expect_refused<Setup>(
          {"threads", [=](auto& s) { s.context.num_threads = threads; }, "num_threads"}, operation);
    }
    for (const int id : {-1, 4, 1000}) {
      expect_refused<Setup>(
          {"backend", [=](auto& s) { s.context.backend = static_cast<BackendId>(id); }, "backend"},
          operation);
    }
    expect_refused<Setup>({"absent backend", [](auto& s) { s.context.backend = BackendId::kHip; },
                           "backend", StatusCode::kUnsupported},
                          operation);
  });
}

TEST(ValidateCalls, AWorkspaceQueryAnswersAndRunsNothing) {
  for_each_entrance([]<class Setup>(std::string_view operation) {
    Setup setup;
    int64_t bytes = -1;
    setup.context.workspace_query = &bytes;
    const auto before = setup.arena.bytes();
    const Status status = setup.run();
    EXPECT_TRUE(status.ok()) << operation << ": " << status.message();
    EXPECT_EQ(bytes, 0) << operation;
    EXPECT_TRUE(before == setup.arena.bytes()) << operation << ": memory was touched";
  });
}

/// A backend without workspace asks nobody for it.
TEST(ValidateCalls, P17_AWorkspaceSourceIsNotAskedOnTheHost) {
  for_each_entrance([]<class Setup>(std::string_view operation) {
    Setup setup;
    int times = 0;
    setup.context.workspace_source = {.take =
                                          [](void* user, int64_t) {
                                            ++*static_cast<int*>(user);
                                            return Workspace{};
                                          },
                                      .user = &times};
    const Status status = setup.run();
    EXPECT_TRUE(status.ok()) << operation << ": " << status.message();
    EXPECT_EQ(times, 0) << operation;
  });
}

TEST(ValidateCalls, Plans) {
  for_each_entrance([]<class Setup>(std::string_view operation) {
    const auto spoil = [&]<class Plan>(const std::string& name, Plan get) {
      expect_refused<Setup>({"null plan", [=](auto& s) { get(s.args) = nullptr; }, name},
                            operation);
      expect_refused<Setup>({"moved plan",
                             [=](auto& s) {
                               const TilePlan taken =
                                   std::move(const_cast<TilePlan&>(*get(s.args)));
                               ASSERT_GT(taken.num_tiles(), 0);
                             },
                             name},
                            operation);
    };
    Setup s;
    if constexpr (requires { s.args.plan; }) {
      spoil(
          "plan", [](auto& a) -> auto& { return a.plan; });
    }
    if constexpr (requires { s.args.q_plan; }) {
      spoil(
          "q_plan", [](auto& a) -> auto& { return a.q_plan; });
    }
    if constexpr (requires { s.args.kv_plan; }) {
      spoil(
          "kv_plan", [](auto& a) -> auto& { return a.kv_plan; });
    }
  });
}

TEST(ValidateCalls, Scale) {
  for_each_entrance([]<class Setup>(std::string_view operation) {
    if constexpr (requires(Setup s) { s.args.rounding; }) {
      expect_refused<Setup>(
          {"rounding", [](auto& s) { s.args.rounding = static_cast<CoarseRounding>(2); },
           "rounding"},
          operation);
    }
    if constexpr (requires(Setup s) { s.args.scale = 1.0F; }) {
      for (const float bad : {kNan, kInf, -kInf}) {
        expect_refused<Setup>({"scale", [=](auto& s) { s.args.scale = bad; }, "scale"}, operation);
      }
    }
  });
}

TEST(ValidateCalls, DefaultScale) {
  EXPECT_EQ(default_scale(64), 0.125F);
  EXPECT_EQ(default_scale(80), static_cast<float>(1.0 / std::sqrt(80.0)));
}

/// One gate of the call, spoiled in every way. B 2, H 4, S 32, D 8.
template <class Setup, class Get>
void expect_bad_gates_refused(const std::string& name, std::string_view operation, Get gate) {
  std::vector<BadCall<Setup>> calls;
  const auto add = [&](const std::string& what, auto make,
                       StatusCode code = StatusCode::kInvalidArgument) {
    calls.push_back({what, [=](Setup& s) { gate(s) = make(s); }, name, code});
  };
  const auto add_tensor = [&](const std::string& what, auto spoil,
                              StatusCode code = StatusCode::kInvalidArgument) {
    add(
        what,
        [=](Setup& s) {
          ConstTensor t = s.q_like();
          spoil(t);
          return Gate::tensor(t);
        },
        code);
  };
  add("unset", [](Setup&) { return Gate(); });
  for (const float bad : {kNan, kInf, -kInf})
    add("constant", [=](Setup&) { return Gate::constant(bad); });
  add_tensor("null", [](auto& t) { t.data = nullptr; });
  add_tensor("dtype", [](auto& t) { t.dtype = DType::kBF16; });
  add_tensor(
      "f64", [](auto& t) { t.dtype = DType::kF64; }, StatusCode::kUnsupported);
  add_tensor("unknown dtype", [](auto& t) { t.dtype = static_cast<DType>(9); });
  add_tensor("last axis", [](auto& t) { t.stride[3] = 0; });
  for (size_t axis = 0; axis < 4; ++axis) {
    add_tensor("short axis", [=](auto& t) { --t.shape[axis]; });
  }
  expect_refused(calls, operation);
}

TEST(ValidateCalls, T23_Gates) {
  for_each_entrance([]<class Setup>(std::string_view operation) {
    if constexpr (requires(Setup s) { s.args.gate_fine; }) {
      expect_bad_gates_refused<Setup>("gate_coarse", operation,
                                      [](Setup& s) -> Gate& { return s.args.gate_coarse; });
      expect_bad_gates_refused<Setup>("gate_fine", operation,
                                      [](Setup& s) -> Gate& { return s.args.gate_fine; });
    }
  });
}

TEST(ValidateCalls, InputsMayBeBroadcast) {
  CombineCall call;
  ConstTensor per_head = call.q_like();
  per_head.stride[0] = 0;
  per_head.stride[2] = 0;
  call.args.gate_coarse = Gate::tensor(per_head);
  EXPECT_TRUE(validate(call.context, call.args).ok());
}

TEST(ValidateCalls, CoarseOutMayBeAbsentWhereItIsNotNeeded) {
  CombineCall forward;
  forward.args.gate_coarse = Gate::zero();
  forward.args.coarse_out = {};
  EXPECT_TRUE(validate(forward.context, forward.args).ok());
  CombineBackwardCall backward;
  backward.args.gate_coarse = Gate::zero();
  backward.args.coarse_out = {};
  EXPECT_FALSE(validate(backward.context, backward.args).ok()) << "dgate_coarse needs it";
  backward.args.dgate_coarse = {};
  EXPECT_TRUE(validate(backward.context, backward.args).ok());
}

TEST(ValidateCalls, OptionalOutputs) {
  CoarseCall coarse;
  coarse.args.coarse_scores = {};
  EXPECT_TRUE(validate(coarse.context, coarse.args).ok());
  expect_refused<CoarseCall>(
      {"nothing to write", [](auto& s) { s.args.coarse_scores = s.args.coarse_out = {}; },
       "coarse_out"},
      "coarse");
  AttentionCall attention;
  attention.args.lse = attention.args.fine_out = {};
  attention.args.lut_out = {};
  EXPECT_TRUE(validate(attention.context, attention.args).ok());
}

TEST(ValidateCalls, HeadsThatDoNotGroup) {
  const auto three_heads = [](auto& t) {
    t.shape[1] = 3;  // of 4 query heads; the memory is not read
  };
  expect_refused<FineCall>({"heads", [=](auto& s) { three_heads(s.args.k); }, "k"}, "fine");
  expect_refused<CoarseCall>({"heads", [=](auto& s) { three_heads(s.args.k_pooled); }, "k_pooled"},
                             "coarse");
  expect_refused<AttentionCall>({"heads", [=](auto& s) { three_heads(s.args.k); }, "k"},
                                "attention_forward");
}

/// A fine call with another head_dim.
Status fine_with_head_dim(BackendId backend, int64_t head_dim) {
  FineCall call;
  call.context.backend = backend;
  for (auto* t : {&call.args.q, &call.args.k, &call.args.v}) {
    *t = call.arena.tensor(DType::kF32, {t->shape[0], t->shape[1], t->shape[2], head_dim});
  }
  call.args.out = call.arena.tensor(DType::kF32, {2, 4, call.sq, head_dim});
  return validate(call.context, call.args);
}

TEST(ValidateCalls, T20_HeadDims) {
  for (const int64_t d : {8, 32, 80, 96, 128, 160, 256}) {
    EXPECT_TRUE(fine_with_head_dim(BackendId::kCpu, d).ok()) << d;
  }
  for (const int64_t d : {1, 7, 100, 257, 264}) {
    const Status status = fine_with_head_dim(BackendId::kCpu, d);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << d;
    EXPECT_THAT(status.message(), testing::HasSubstr("a multiple of 8 up to 256")) << d;
    EXPECT_TRUE(fine_with_head_dim(BackendId::kReference, d).ok()) << d;
  }
}

TEST(ValidateCalls, F64IsForTheReference) {
  FineCall call;
  for (auto* t : {&call.args.q, &call.args.k, &call.args.v}) {
    *t = call.arena.tensor(DType::kF64, t->shape);
  }
  call.args.out = call.arena.tensor(DType::kF64, call.args.out.shape);
  EXPECT_EQ(validate(call.context, call.args).code(), StatusCode::kUnsupported);
  call.context.backend = BackendId::kReference;
  EXPECT_TRUE(validate(call.context, call.args).ok());
}

TEST(ValidateCalls, HalfPrecisionTokens) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    FineCall call;
    for (auto* t : {&call.args.q, &call.args.k, &call.args.v}) {
      *t = call.arena.tensor(dtype, t->shape);
    }
    EXPECT_EQ(validate(call.context, call.args).code(), StatusCode::kInvalidArgument)
        << "out is still f32";
    call.args.out = call.arena.tensor(dtype, call.args.out.shape);
    EXPECT_TRUE(validate(call.context, call.args).ok());
  }
}

TEST(ValidateCalls, T39_ViewsOfLargerTensors) {
  FineCall call;
  // [B, S, 3, H, D] as from one projection; k and v are its second and third part.
  ConstTensor fused = call.arena.tensor(DType::kF32, {2, 3 * 2, call.sk, 8});
  const auto part = [&](int64_t i) {
    ConstTensor t = fused;
    t.data = static_cast<const float*>(fused.data) + i * 2 * 8;
    t.shape = {2, 2, call.sk, 8};
    return t;
  };
  call.args.k = part(1);
  call.args.v = part(2);
  EXPECT_TRUE(validate(call.context, call.args).ok());
}

TEST(ValidateCalls, OutputsKeepApart) {
  for_each_entrance([]<class Setup>(std::string_view operation) {
    Setup s;
    if constexpr (requires { s.args.dq; }) {
      expect_refused<Setup>({"dv on dk", [](auto& c) { c.args.dv.data = c.args.dk.data; }, "dv"},
                            operation);
      expect_refused<Setup>(
          {"dq on dout", [](auto& c) { c.args.dq.data = const_cast<void*>(c.args.dout.data); },
           "dq"},
          operation);
      expect_refused<Setup>(
          {"dk on the table",
           [](auto& c) { c.args.dk.data = const_cast<int32_t*>(c.args.lut.index); }, "dk"},
          operation);
    } else if constexpr (requires { s.args.q; }) {
      expect_refused<Setup>(
          {"out on q", [](auto& c) { c.args.out.data = const_cast<void*>(c.args.q.data); }, "out"},
          operation);
      if constexpr (requires { s.args.lse; }) {
        expect_refused<Setup>(
            {"lse in out",
             [](auto& c) { c.args.lse.data = static_cast<float*>(c.args.out.data) + 100; }, "lse"},
            operation);
      }
    }
  });
  expect_refused<CombineCall>(
      {"in place", [](auto& s) { s.args.out.data = const_cast<void*>(s.args.fine_out.data); },
       "out"},
      "combine");
  expect_refused<CombineCall>(
      {"out on its gate",
       [](auto& s) { s.args.out.data = const_cast<void*>(s.args.gate_coarse.as_tensor().data); },
       "out"},
      "combine");
  expect_refused<SelectCall>(
      {"counts on indices", [](auto& s) { s.args.lut.count = s.args.lut.index + 100; }, "lut"},
      "select");
  expect_refused<TileCall>(
      {"in place", [](auto& s) { s.args.tiled.data = const_cast<void*>(s.args.x.data); }, "tiled"},
      "tile");
}

}  // namespace
}  // namespace vsa::test
