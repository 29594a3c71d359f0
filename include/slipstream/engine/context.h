#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "slipstream/engine/plan.h"

namespace slipstream {

/// What outlives a run on one device: streams, the threads of lanes and page-locked memory. The
/// caller makes it once; the command line makes one for the process. A second run in it takes no
/// more memory. Only one run at a time may use it.
class Context {
 public:
  /// Takes the device of that name: "cpu", "cuda", "cuda:N" or "auto" (the first GPU, else the
  /// CPU). Throws Refused, naming the devices there are, for a device that is not there. On a GPU
  /// it sets CUBLAS_WORKSPACE_CONFIG to ":4096:8" in the environment where that is not set, because
  /// cuBLAS is not deterministic without, and CUDA_DEVICE_MAX_CONNECTIONS to 32, so that streams do
  /// not share a queue of the device. A program that uses CUDA before it makes a Context sets them
  /// itself.
  explicit Context(const std::string& device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The device.
  c10::Device device() const { return device_; }
  /// Whether the device is a CPU or a GPU.
  DeviceKind kind() const;

 private:
  friend struct Access;
  struct Impl;
  c10::Device device_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
