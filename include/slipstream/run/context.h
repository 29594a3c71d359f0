#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "slipstream/plan/plan.h"

namespace slipstream {

/// What outlives a run: streams, lane threads and page-locked memory of one device. Made once by
/// the caller (the command line makes one a process); a second run in it takes no more memory.
/// One run at a time.
class Context {
 public:
  /// "cpu", "cuda", "cuda:N" or "auto" (the first GPU, else the CPU). Throws Refused for a device
  /// that is not there, with what is. On a GPU it sets CUBLAS_WORKSPACE_CONFIG to ":4096:8" in the
  /// environment, unless it is set, without which cuBLAS is not deterministic: a program that uses
  /// cuBLAS before it makes a Context sets it itself.
  explicit Context(const std::string& device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  c10::Device device() const { return device_; }
  DeviceKind kind() const;

 private:
  friend struct Inside;
  struct Impl;
  c10::Device device_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
