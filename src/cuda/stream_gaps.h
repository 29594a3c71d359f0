#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace slipstream::cuda {

/// Measures for how long a device has no work of a loop: from the end of the work that was enqueued
/// before begin() to the work that is enqueued after end(). Never waits for the device. If the
/// device still works on earlier steps in the meantime, the gap is 0. Not thread-safe.
class StreamGaps {
 public:
  explicit StreamGaps(int device);
  ~StreamGaps();
  StreamGaps(const StreamGaps&) = delete;
  StreamGaps& operator=(const StreamGaps&) = delete;

  int device() const { return device_; }
  /// Marks the begin of a gap. Does nothing while `stream` is captured to a CUDA graph, and while
  /// the device has not finished the last kGaps gaps: it then has work, so the gap would be 0.
  void begin(cudaStream_t stream);
  /// Marks the end of the gap, which may be on another stream of the device.
  void end(cudaStream_t stream);
  /// Returns the total length of the gaps that have ended on the device since the last call.
  double take_s();

 private:
  static constexpr std::size_t kGaps = 64;
  struct Gap {
    cudaEvent_t begin = nullptr, end = nullptr;
  };

  int device_;
  std::array<Gap, kGaps> gaps_;
  std::uint64_t begun_ = 0, taken_ = 0;
  bool is_open_ = false;
};

}  // namespace slipstream::cuda
