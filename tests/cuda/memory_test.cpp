#include <gmock/gmock.h>

#include <thread>

#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using MemoryTest = test::GpuTest;
using DeviceTest = test::GpuTest;

TEST_F(DeviceTest, FirstDeviceHasPlausibleProperties) {
  const std::vector<DeviceInfo> found = devices();
  EXPECT_EQ(found[0].index, 0);
  EXPECT_FALSE(found[0].name.empty());
  EXPECT_GE(found[0].major, 7);
  EXPECT_GT(found[0].multiprocessors, 0);
  EXPECT_GT(found[0].memory_bytes, std::size_t{1} << 30);
  EXPECT_GT(found[0].l2_bytes, 0U);
  EXPECT_THAT(driver_version(), testing::MatchesRegex("[0-9]+(\\.[0-9]+)+"));
}

TEST_F(DeviceTest, GuardRestoresCurrentDevice) {
  const int last = static_cast<int>(devices().size()) - 1;
  int device = -1;
  {
    const DeviceGuard guard(last);
    check_cuda(cudaGetDevice(&device));
    EXPECT_EQ(device, last);
  }
  check_cuda(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  EXPECT_THROW(DeviceGuard(last + 1), Error);
  { const DeviceGuard guard(last + 1, std::nothrow); }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  check_cuda(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST_F(DeviceTest, StreamsAreNonBlockingAndPrioritiesAreClamped) {
  int lowest = 0;
  int highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  const auto lane_priority = [](int wanted) {
    const Stream stream(0, wanted);
    unsigned flags = 0;
    check_cuda(cudaStreamGetFlags(stream.get(), &flags));
    EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
    int priority = 0;
    check_cuda(cudaStreamGetPriority(stream.get(), &priority));
    return priority;
  };
  EXPECT_EQ(lane_priority(0), lowest);
  EXPECT_EQ(lane_priority(-3), lowest);
  EXPECT_EQ(lane_priority(1), lowest - 1);
  EXPECT_EQ(lane_priority(100), highest);
}

TEST_F(MemoryTest, AllocationIsPinnedAlignedAndCounted) {
  PinnedMemory memory;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{5'000'001}}) {
    void* pointer = memory.allocate(bytes, 256);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 256, 0U);
    EXPECT_EQ(memory.bytes_in_use(), bytes);
    cudaPointerAttributes attributes{};
    check_cuda(cudaPointerGetAttributes(&attributes, pointer));
    EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
    memory.deallocate(pointer, bytes, 256);
    EXPECT_EQ(memory.bytes_in_use(), 0U);
  }
}

TEST_F(MemoryTest, FailedAllocationNamesSizeAndLeavesNoCudaError) {
  PinnedMemory memory;
  try {
    static_cast<void>(memory.allocate(std::size_t{1} << 60));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1152921504606846976 bytes"));
    EXPECT_THAT(error.what(), testing::HasSubstr("reduce the batch size"));
  }
  EXPECT_EQ(memory.bytes_in_use(), 0U);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(MemoryTest, CopyToDeviceAndBackKeepsValues) {
  PinnedMemory memory;
  std::pmr::vector<int> source(100'003, &memory);
  std::pmr::vector<int> back(source.size(), &memory);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<int>(i * 7);
  const test::DeviceBuffer<int> device(source.size());
  const Stream stream(0);
  copy_async(device.get(), source.data(), device.bytes(), stream);
  copy_async(back.data(), device.get(), device.bytes(), stream);
  copy_async(nullptr, nullptr, 0, stream);
  stream.synchronize();
  EXPECT_EQ(back, source);
}

}  // namespace
}  // namespace slipstream::cuda
