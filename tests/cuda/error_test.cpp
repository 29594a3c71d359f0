#include <gmock/gmock.h>

#include <cstdlib>

#include "cuda/cuda.h"

namespace slipstream::cuda {
namespace {

using testing::HasSubstr;

TEST(CheckCudaTest, SuccessDoesNotThrow) { EXPECT_NO_THROW(check_cuda(cudaSuccess)); }

TEST(CheckCudaTest, MessageNamesFileLineAndError) {
  const auto line = std::to_string(__LINE__ + 2);
  try {
    check_cuda(cudaErrorInvalidValue);
    FAIL();
  } catch (const DeviceLost&) {
    FAIL() << "the device can still be used";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("error_test.cpp:" + line + ": cudaErrorInvalidValue: "));
  }
}

TEST(CheckCudaTest, ErrorsThatCorruptTheContextThrowDeviceLost) {
  for (const cudaError_t status :
       {cudaErrorAssert, cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorECCUncorrectable,
        cudaErrorMisalignedAddress, cudaErrorLaunchTimeout, cudaErrorIllegalInstruction}) {
    EXPECT_THROW(check_cuda(status), DeviceLost) << cudaGetErrorName(status);
  }
}

TEST(CheckCudaTest, RecoverableErrorsDoNotThrowDeviceLost) {
  for (const cudaError_t status : {cudaErrorMemoryAllocation, cudaErrorNoDevice, cudaErrorNotReady,
                                   cudaErrorInvalidConfiguration}) {
    EXPECT_THROW(
        {
          try {
            check_cuda(status);
          } catch (const DeviceLost&) {
            ADD_FAILURE() << cudaGetErrorName(status);
          }
        },
        Error)
        << cudaGetErrorName(status);
  }
}

TEST(StreamViewTest, DefaultStreamsThrowLogicError) {
  EXPECT_THROW(StreamView(cudaStream_t{}), std::logic_error);
  EXPECT_THROW(StreamView{cudaStreamLegacy}, std::logic_error);
  EXPECT_THROW(StreamView{cudaStreamPerThread}, std::logic_error);
}

TEST(QueuesTest, UnsetMaxConnectionsBecomes32AndSetValueIsKept) {
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  ask_for_queues();
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "4", 1);
  ask_for_queues();
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "4");
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

TEST(OverlapHindrancesTest, MessageNamesVariableAndSaysToUnsetIt) {
  unsetenv("CUDA_LAUNCH_BLOCKING");
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
  EXPECT_TRUE(overlap_hindrances().empty());
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  const std::vector<std::string> found = overlap_hindrances();
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  unsetenv("CUDA_LAUNCH_BLOCKING");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0], HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1"));
  EXPECT_THAT(found[1], HasSubstr("CUDA_LAUNCH_BLOCKING=1"));
  for (const std::string& sentence : found) EXPECT_THAT(sentence, HasSubstr("unset it"));
}

}  // namespace
}  // namespace slipstream::cuda
