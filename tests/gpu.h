#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "slipstream/cuda.h"

namespace slipstream::test {

/// Whether a test that needs a GPU must fail, not skip, where there is none:
/// SLIPSTREAM_REQUIRE_GPU=1.
inline bool gpu_is_required() {
  const char* value = std::getenv("SLIPSTREAM_REQUIRE_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

/// Tests on device 0: skipped with the reason where no GPU is, failed where one is required.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::devices().empty()) return;
    const std::string reason = "no usable GPU (driver " + cuda::driver_version() + ")";
    if (gpu_is_required()) FAIL() << reason << ", and SLIPSTREAM_REQUIRE_GPU=1";
    GTEST_SKIP() << reason;
  }
};

}  // namespace slipstream::test
