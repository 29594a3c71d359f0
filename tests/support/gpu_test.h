#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "slipstream/cuda.h"

namespace slipstream {

/// Base of the tests that need a GPU: where there is none they are skipped, and with
/// SLIPSTREAM_REQUIRE_GPU=1 they fail.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::devices().empty()) return;
    const char* required = std::getenv("SLIPSTREAM_REQUIRE_GPU");
    if (required != nullptr && std::string_view(required) == "1") FAIL() << "no GPU here";
    GTEST_SKIP() << "no GPU here";
  }
};

}  // namespace slipstream
