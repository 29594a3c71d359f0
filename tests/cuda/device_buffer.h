#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "cuda/cuda.h"

namespace slipstream::test {

/// Device memory of a test. Functions return after the device has finished the operation.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t count, int fill = 0) : count_(count) {
    void* memory = nullptr;
    cuda::check_cuda(cudaMalloc(&memory, bytes() == 0 ? 1 : bytes()));
    memory_ = static_cast<T*>(memory);
    cuda::check_cuda(cudaMemset(memory_, fill, bytes()));
    cuda::check_cuda(cudaDeviceSynchronize());
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) {
    write(values);
  }
  ~DeviceBuffer() { static_cast<void>(cudaFree(memory_)); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* get() const { return memory_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

  void write(const std::vector<T>& values) {
    cuda::check_cuda(cudaMemcpy(memory_, values.data(), bytes(), cudaMemcpyHostToDevice));
    cuda::check_cuda(cudaDeviceSynchronize());
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    cuda::check_cuda(cudaMemcpy(values.data(), memory_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  T* memory_ = nullptr;
};

}  // namespace slipstream::test
