#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "slipstream/engine/plan.h"

namespace slipstream {

/// The resources of one device that are kept between runs: streams, the threads of lanes and
/// page-locked memory. The caller creates it once; the command line has one for the process. A
/// second run in the same Context allocates no further memory. Only one run at a time may use it.
class Context {
 public:
  /// Opens the device of that name: "cpu", "cuda", "cuda:N" or "auto" (the first GPU, or the CPU if
  /// there is none). Throws Refused, with the available devices, if the device does not exist.
  ///
  /// On a GPU it sets two environment variables, unless they are already set:
  /// CUBLAS_WORKSPACE_CONFIG to ":4096:8", because cuBLAS is not deterministic otherwise, and
  /// CUDA_DEVICE_MAX_CONNECTIONS to 32, so that streams do not share a hardware queue. CUDA reads
  /// them only once: a program that uses CUDA before it creates a Context must set them itself.
  explicit Context(const std::string& device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The device.
  c10::Device device() const { return device_; }
  /// Returns the kind of the device: CPU or GPU.
  DeviceKind kind() const;

 private:
  friend struct Access;
  struct Impl;
  c10::Device device_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
