#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "cuda/cuda.h"

namespace slipstream::test {

/// Returns true if a test that needs a GPU must fail instead of being skipped when there is none:
/// SLIPSTREAM_REQUIRE_GPU=1.
inline bool gpu_is_required() {
  const char* value = std::getenv("SLIPSTREAM_REQUIRE_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

/// Without a GPU, skips the running test, or fails it if a GPU is required.
inline void require_gpu() {
  if (!cuda::devices().empty()) return;
  const std::string reason = "no usable GPU (driver " + cuda::driver_version() + ")";
  if (gpu_is_required()) FAIL() << reason << ", and SLIPSTREAM_REQUIRE_GPU=1";
  GTEST_SKIP() << reason;
}

/// Tests on device 0, which need a GPU.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override { require_gpu(); }
};

}  // namespace slipstream::test
