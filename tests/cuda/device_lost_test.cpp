#include <cstdlib>

#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using DeviceLostDeathTest = test::GpuTest;

constexpr int kDeviceWasLost = 42;

bool loses_device(CudaLane& lane) {
  try {
    lane.synchronize();
  } catch (const DeviceLost&) {
    return true;
  }
  return false;
}

// Reads device memory that was never allocated.
[[noreturn]] void lose_device() {
  CudaLane lane("broken", 0, 0);
  const test::DeviceBuffer<std::uint64_t> digest(1);
  const std::uintptr_t nowhere = 0x1000;
  fingerprint_async(reinterpret_cast<const void*>(nowhere), 1 << 20, digest.get(), lane.stream());
  const bool first = loses_device(lane);
  std::exit(first && loses_device(lane) ? kDeviceWasLost : 1);
}

TEST_F(DeviceLostDeathTest, EverySynchronizeAfterIllegalAccessThrowsAndProcessExits) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(lose_device(), testing::ExitedWithCode(kDeviceWasLost), "");
}

}  // namespace
}  // namespace slipstream::cuda
