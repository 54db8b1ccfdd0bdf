#include "cli/common/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

#include "cli/common/failure.h"

namespace vsa::cli {
namespace {

TEST(InterruptScope, ASignalInAnInnerOneCountsUntilTheOutermostEnds) {
  install_interrupt_handlers();
  {
    const InterruptScope outer;
    {
      const InterruptScope inner;
      std::raise(SIGINT);
      EXPECT_TRUE(inner.requested());
    }
    EXPECT_TRUE(outer.requested());
    EXPECT_THROW(outer.check(), Failure);
  }
  const InterruptScope next;
  EXPECT_FALSE(next.requested());
  EXPECT_NO_THROW(next.check());
}

TEST(InterruptScopeDeathTest, WithoutOneOrTheSecondTimeTheProcessEnds) {
  EXPECT_EXIT(
      {
        install_interrupt_handlers();
        {
          const InterruptScope scope;
          { const InterruptScope inner; }
        }
        std::raise(SIGTERM);
      },
      testing::ExitedWithCode(143), "");  // 128 + SIGTERM
  EXPECT_EXIT(
      {
        install_interrupt_handlers();
        const InterruptScope scope;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace vsa::cli
