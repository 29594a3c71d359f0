#pragma once

#include "cuda/symbol.h"

namespace slipstream::cuda::nvml {

// The part of NVML's binary interface that is used here. NVML is opened at run time, because it and
// its header are not installed everywhere. gpu_meter_test.cpp compares these definitions with
// <nvml.h> if that is installed. Source: NVIDIA, "NVML API Reference Guide", CUDA 13.0.

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kInsufficientSize = 7;

struct DeviceHandle;
struct SampleHandle;
using Device = DeviceHandle*;
using GpmSample = SampleHandle*;

inline constexpr unsigned kGpmVersion = 1;
inline constexpr unsigned kGpmSmUtil = 2;       ///< percent
inline constexpr unsigned kGpmDramBwUtil = 10;  ///< percent

struct GpmSupport {
  unsigned version;
  unsigned is_supported;
};

struct GpmMetric {
  unsigned id;
  Return status;
  double value;
  const char* short_name;
  const char* long_name;
  const char* unit;
};

/// NVML's own array is longer, but it reads and writes only the first `count` elements.
struct GpmMetrics {
  unsigned version;
  unsigned count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[2];
};

inline constexpr int kGpuUtilizationSamples = 1;

struct Sample {
  unsigned long long time_us;
  union {
    double number;
    unsigned percent;
  } value;
};

/// The opened library.
struct Library {
  Library() = default;
  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool is_complete() const { return init && shutdown && find && samples; }
  bool has_gpm() const { return gpm_support && gpm_alloc && gpm_free && gpm_get && gpm_metrics; }

  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  Symbol<Return()> init{handle, "nvmlInit_v2"};
  Symbol<Return()> shutdown{handle, "nvmlShutdown"};
  Symbol<Return(char*, unsigned)> driver_version{handle, "nvmlSystemGetDriverVersion"};
  Symbol<Return(const char*, Device*)> find{handle, "nvmlDeviceGetHandleByPciBusId_v2"};
  Symbol<Return(Device, int, unsigned long long, int*, unsigned*, Sample*)> samples{
      handle, "nvmlDeviceGetSamples"};
  /// Called with a null buffer, which returns only the number of processes.
  Symbol<Return(Device, unsigned*, void*)> processes{handle,
                                                     "nvmlDeviceGetComputeRunningProcesses_v3"};
  Symbol<Return(Device, GpmSupport*)> gpm_support{handle, "nvmlGpmQueryDeviceSupport"};
  Symbol<Return(GpmSample*)> gpm_alloc{handle, "nvmlGpmSampleAlloc"};
  Symbol<Return(GpmSample)> gpm_free{handle, "nvmlGpmSampleFree"};
  Symbol<Return(Device, GpmSample)> gpm_get{handle, "nvmlGpmSampleGet"};
  Symbol<Return(GpmMetrics*)> gpm_metrics{handle, "nvmlGpmMetricsGet"};
};

}  // namespace slipstream::cuda::nvml
