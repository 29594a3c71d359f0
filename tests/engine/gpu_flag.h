#pragma once

#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>

#include "cuda/cuda.h"

namespace slipstream::test {

/// Stream memory operations on one word of page-locked memory, and a bound on every wait for it.
class Flag {
 public:
  Flag() {
    cuda::check_cuda(
        cudaHostAlloc(reinterpret_cast<void**>(&word_), sizeof(*word_), cudaHostAllocMapped));
    __atomic_store_n(word_, 0U, __ATOMIC_RELEASE);
    load("cuStreamWaitValue32", wait_);
    load("cuStreamWriteValue32", write_);
  }
  ~Flag() { static_cast<void>(cudaFreeHost(word_)); }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

  void write(std::uint32_t value) { operate(write_, value, 0); }
  void await(std::uint32_t value) { operate(wait_, value, CU_STREAM_WAIT_VALUE_GEQ); }
  void release_all() { __atomic_store_n(word_, 0x7fffffffU, __ATOMIC_RELEASE); }

 private:
  using Operation = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

  static void load(const char* name, Operation& function) {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda::check_cuda(
        cudaGetDriverEntryPointByVersion(name, &pointer, 12000, cudaEnableDefault, &found));
    ASSERT_EQ(found, cudaDriverEntryPointSuccess) << name;
    function = reinterpret_cast<Operation>(pointer);
  }
  void operate(Operation function, std::uint32_t value, unsigned flags) const {
    void* device = nullptr;
    cuda::check_cuda(cudaHostGetDevicePointer(&device, word_, 0));
    const CUresult result = function(c10::cuda::getCurrentCUDAStream().stream(),
                                     reinterpret_cast<CUdeviceptr>(device), value, flags);
    if (result != CUDA_SUCCESS) throw std::runtime_error("stream memory operation failed");
  }

  std::uint32_t* word_ = nullptr;
  Operation wait_ = nullptr, write_ = nullptr;
};

/// Lets all waits for a flag through once `patience` is over: it only bounds a wait that nothing
/// else would ever end.
class Watchdog {
 public:
  Watchdog(Flag& flag, std::chrono::milliseconds patience)
      : thread_([this, &flag, patience](const std::stop_token& stop) {
          const auto deadline = std::chrono::steady_clock::now() + patience;
          while (!stop.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (std::chrono::steady_clock::now() < deadline) continue;
            released_ = true;
            flag.release_all();  // again and again, for later batches write their own numbers
          }
        }) {}
  bool has_released() const { return released_; }

 private:
  std::atomic<bool> released_{false};
  std::jthread thread_;
};

}  // namespace slipstream::test
