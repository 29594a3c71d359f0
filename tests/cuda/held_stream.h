#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "core/patience.h"
#include "cuda/cuda.h"

namespace slipstream::test {

/// Keeps work that is enqueued on a stream later from running until release(). After kPatience it
/// releases the stream itself; a test that waits for the stream too early then fails instead of
/// hanging.
class HeldStream {
 public:
  explicit HeldStream(const cuda::StreamView& stream) {
    cuda::check_cuda(
        cudaHostAlloc(reinterpret_cast<void**>(&word_), sizeof(*word_), cudaHostAllocMapped));
    __atomic_store_n(word_, 0U, __ATOMIC_RELEASE);
    void* device = nullptr;
    cuda::check_cuda(cudaHostGetDevicePointer(&device, word_, 0));
    const CUresult result = wait_function()(stream.get(), reinterpret_cast<CUdeviceptr>(device), 1,
                                            CU_STREAM_WAIT_VALUE_GEQ);
    if (result != CUDA_SUCCESS) throw std::runtime_error("stream memory operation failed");
    watchdog_ = std::jthread([this](const std::stop_token& stop) {
      const auto deadline = std::chrono::steady_clock::now() + kPatience;
      while (!stop.stop_requested() && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      release();
    });
  }
  ~HeldStream() {
    watchdog_ = {};
    static_cast<void>(cudaDeviceSynchronize());
    static_cast<void>(cudaFreeHost(word_));
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void release() { __atomic_store_n(word_, 1U, __ATOMIC_RELEASE); }
  /// Returns false after the stream was released, by the test or because of the time limit.
  bool is_held() const { return __atomic_load_n(word_, __ATOMIC_ACQUIRE) == 0; }

 private:
  using Operation = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

  static Operation wait_function() {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda::check_cuda(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &pointer, 12000,
                                                      cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) throw std::runtime_error("no cuStreamWaitValue32");
    return reinterpret_cast<Operation>(pointer);
  }

  unsigned* word_ = nullptr;
  std::jthread watchdog_;
};

}  // namespace slipstream::test
