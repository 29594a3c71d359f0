#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "cuda/cuda.h"

namespace slipstream::test {

/// Whether a test that needs a GPU must fail, not skip, where there is none:
/// SLIPSTREAM_REQUIRE_GPU=1.
inline bool gpu_is_required() {
  const char* value = std::getenv("SLIPSTREAM_REQUIRE_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

/// Skips the running test with the reason where no GPU is; fails it where one is required.
inline void require_gpu() {
  if (!cuda::devices().empty()) return;
  const std::string reason = "no usable GPU (driver " + cuda::driver_version() + ")";
  if (gpu_is_required()) FAIL() << reason << ", and SLIPSTREAM_REQUIRE_GPU=1";
  GTEST_SKIP() << reason;
}

/// Tests on device 0, as require_gpu() says.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override { require_gpu(); }
};

}  // namespace slipstream::test
