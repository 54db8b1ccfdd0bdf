// The list of backends.
#include "src/api/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vsa {
namespace {

TEST(Registry, EveryBackendIsListedWithAReasonIfAbsent) {
  const std::vector<BackendInfo> all = backends();
  ASSERT_EQ(all.size(), kBackendIds.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].id, static_cast<BackendId>(i));
    EXPECT_NE(name(all[i].id), "unknown");
    EXPECT_FALSE(all[i].detail.empty());
  }
  EXPECT_TRUE(all[0].available);
  EXPECT_FALSE(all[3].available);
  EXPECT_EQ(name(static_cast<BackendId>(all.size())), "unknown") << "not in kBackendIds";
}

TEST(Registry, NamesThereAndBack) {
  for (const BackendInfo& info : backends()) {
    EXPECT_EQ(backend_from_name(name(info.id)).value(), info.id);
  }
  for (const char* wrong : {"", "CPU", "cpu ", "gpu", "unknown"}) {
    const Result<BackendId> id = backend_from_name(wrong);
    ASSERT_FALSE(id.ok()) << wrong;
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(id.status().message(), testing::HasSubstr("reference, cpu, cuda or hip"));
  }
}

TEST(Registry, TablesBelongToTheirId) {
  for (const BackendId id : {BackendId::kReference, BackendId::kCpu, BackendId::kCuda}) {
    if (id == BackendId::kCuda && find_backend(id) == nullptr) continue;  // not compiled in
    ASSERT_NE(find_backend(id), nullptr);
    EXPECT_EQ(find_backend(id)->id, id);
    EXPECT_EQ(find_backend(id)->info().id, id);
    EXPECT_EQ(find_backend(id)->library != nullptr, !find_library_names(id).empty());
  }
  EXPECT_EQ(find_backend(static_cast<BackendId>(-1)), nullptr);
  EXPECT_EQ(usable_backend("x", static_cast<BackendId>(9)).status().message(),
            "[x] backend: expected reference, cpu, cuda or hip, got 9");
}

TEST(Registry, ImplementsWhatTheTableHas) {
#define VSA_NAME(stage, Args, fields) #stage,
  for (const char* call : {VSA_FOR_EACH_STAGE(VSA_NAME)}) {
#undef VSA_NAME
    EXPECT_TRUE(implements(BackendId::kReference, call)) << call;
    EXPECT_FALSE(implements(BackendId::kHip, call)) << call;
  }
  EXPECT_TRUE(implements(BackendId::kCpu, "attention_backward"));
  EXPECT_TRUE(implements(BackendId::kCpu, "norm_rope_pool"));
  EXPECT_TRUE(implements(BackendId::kCpu, "residual_norm"));
  EXPECT_TRUE(implements(BackendId::kCpu, "relative_attention"));
  EXPECT_FALSE(implements(BackendId::kReference, "attention"));
}

}  // namespace
}  // namespace vsa
