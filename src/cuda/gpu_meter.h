#pragma once

#include <memory>
#include <optional>
#include <string>

namespace slipstream::cuda {

/// How busy a GPU was between two moments.
struct GpuUse {
  std::optional<double> sm_activity;  ///< share of cycles with a warp resident, over all SMs (GPM)
  std::optional<double> dram_use;     ///< share of the peak DRAM bandwidth (GPM)
  std::optional<double>
      gpu_utilization;                ///< share of time with any kernel resident (NVML): misleads
  std::optional<unsigned> processes;  ///< that hold a context on it at the end, this one included
  std::string note;                   ///< why a share is missing; empty when none is
};

/// Reads NVML, opened at run time: where the library, the rights or the chip's GPM counters are
/// missing, use() says so in `note` and nothing throws.
class GpuMeter {
 public:
  explicit GpuMeter(int device);
  explicit GpuMeter(const std::string& pci_address);  ///< "0000:3b:00.0"
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  void start();
  /// Use since start(). GPM needs at least 100 ms between the two.
  GpuUse use();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream::cuda
