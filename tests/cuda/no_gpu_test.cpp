#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "cuda/cuda.h"
#include "cuda/gpu_meter.h"

namespace slipstream::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Hides the GPU, if there is one: CUDA reads the variable at its first call in this process.
class NoGpuTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("CUDA_VISIBLE_DEVICES", "", 1); }
};

/// Opens the fake library, which is next to this program. The name then refers to it.
void* open_fake_nvml() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return dlopen((program.parent_path() / "libnvidia-ml.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string thrown_message(const std::function<void()>& call) {
  try {
    call();
  } catch (const DeviceLost& error) {
    return std::string("device lost: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(NoGpuTest, DeviceListIsEmpty) { EXPECT_THAT(devices(), IsEmpty()); }

TEST_F(NoGpuTest, VersionQueriesDoNotThrow) {
  EXPECT_THAT(runtime_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+"));
  EXPECT_NO_THROW(driver_version());
}

TEST_F(NoGpuTest, DriverVersionIsReadFromNvml) {
  void* const fake = open_fake_nvml();
  ASSERT_NE(fake, nullptr) << dlerror();
  EXPECT_EQ(driver_version(), "580.65.06");
  dlclose(fake);
}

TEST_F(NoGpuTest, MeterWithoutCounterPermissionReportsUtilizationAndNote) {
  void* const fake = open_fake_nvml();
  ASSERT_NE(fake, nullptr) << dlerror();
  GpuMeter meter("0000:3b:00.0");
  meter.start();
  const GpuUse use = meter.use();
  EXPECT_FALSE(use.sm_activity || use.dram_use);
  EXPECT_THAT(use.gpu_utilization, testing::Optional(0.5));
  EXPECT_THAT(use.processes, testing::Optional(2U));
  EXPECT_THAT(use.note, HasSubstr("no permission"));
  dlclose(fake);
}

TEST_F(NoGpuTest, PinnedMemoryErrorNamesSizeAndMissingGpu) {
  PinnedMemory memory;
  const std::string message =
      thrown_message([&] { memory.deallocate(memory.allocate(3 << 20), 0); });
  EXPECT_THAT(message, HasSubstr("3145728 bytes (3 MiB)"));
  EXPECT_THAT(message, HasSubstr("needs a usable GPU"));
  EXPECT_EQ(memory.bytes_in_use(), 0U);
}

TEST_F(NoGpuTest, CreatingLaneThrowsErrorButNotDeviceLost) {
  const std::string message = thrown_message([] { const CudaLane lane("train", 0, 0); });
  EXPECT_THAT(message, testing::AnyOf(HasSubstr("cudaErrorNoDevice"),
                                      HasSubstr("cudaErrorInsufficientDriver")));
  EXPECT_THAT(message, Not(HasSubstr("device lost")));
}

TEST_F(NoGpuTest, NothrowDeviceGuardDoesNotThrow) {
  EXPECT_THROW(DeviceGuard(1), Error);
  const DeviceGuard guard(1, std::nothrow);
}

TEST_F(NoGpuTest, MeterReportsNoValuesAndNoteWithReason) {
  GpuMeter meter(0);
  meter.start();
  const GpuUse use = meter.use();
  EXPECT_THAT(use.note, HasSubstr("no CUDA device 0"));
  EXPECT_FALSE(use.sm_activity || use.dram_use || use.gpu_utilization);
}

}  // namespace
}  // namespace slipstream::cuda
