#pragma once

#include <memory>
#include <optional>
#include <string>

namespace slipstream::cuda {

/// Utilization of a GPU between two moments.
struct GpuUse {
  std::optional<double> sm_activity;  ///< share of cycles with a warp resident, over all SMs (GPM)
  std::optional<double> dram_use;     ///< share of the peak DRAM bandwidth (GPM)
  /// Share of time with any kernel resident (NVML). Misleading: one small kernel counts fully.
  std::optional<double> gpu_utilization;
  /// Number of processes that hold a context on it at the end, including this one.
  std::optional<unsigned> processes;
  std::string note;  ///< why a value is missing; empty if none is
};

/// Reads NVML, which is opened at run time. If the library, the permission or the chip's GPM
/// counters are missing, use() explains that in `note` and nothing throws. Not thread-safe.
class GpuMeter {
 public:
  explicit GpuMeter(int device);
  explicit GpuMeter(const std::string& pci_address);  ///< "0000:3b:00.0"
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  void start();
  /// Returns the utilization since start(). GPM needs at least 100 ms between the two calls.
  GpuUse use();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream::cuda
