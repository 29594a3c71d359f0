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

/// A word of page-locked memory that streams write and wait for, with the driver's stream memory
/// operations.
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

/// Releases all waits for a flag after `patience`, because nothing else would end a wait that can
/// never be satisfied.
class Watchdog {
 public:
  Watchdog(Flag& flag, std::chrono::milliseconds patience)
      : thread_([this, &flag, patience](const std::stop_token& stop) {
          const auto deadline = std::chrono::steady_clock::now() + patience;
          while (!stop.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (std::chrono::steady_clock::now() < deadline) continue;
            released_ = true;
            // Repeated, because later batches overwrite the word with their numbers.
            flag.release_all();
          }
        }) {}
  bool has_released() const { return released_; }

 private:
  std::atomic<bool> released_{false};
  std::jthread thread_;
};

}  // namespace slipstream::test
