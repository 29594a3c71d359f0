#include <cstdio>

#include "cuda/nvml.h"

// The part of NVML that the library uses. It reports one GPU, half busy with two processes, whose
// GPM counters cannot be read without permission. Functions fail unless NVML is initialized.

namespace {

using namespace slipstream::cuda::nvml;

constexpr Return kUninitialized = 1;
int users = 0;
char the_device = 0;
char the_sample = 0;

}  // namespace

extern "C" int nvmlInit_v2() {
  ++users;
  return kSuccess;
}

extern "C" int nvmlShutdown() {
  --users;
  return kSuccess;
}

extern "C" int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (users == 0) return kUninitialized;
  std::snprintf(version, length, "580.65.06");
  return kSuccess;
}

extern "C" int nvmlDeviceGetHandleByPciBusId_v2(const char*, Device* device) {
  *device = reinterpret_cast<Device>(&the_device);
  return users == 0 ? kUninitialized : kSuccess;
}

extern "C" int nvmlDeviceGetSamples(Device, int, unsigned long long, int*, unsigned* count,
                                    Sample* samples) {
  *count = 2;
  if (samples == nullptr) return kSuccess;
  samples[0].value.percent = 40;
  samples[1].value.percent = 60;
  return kSuccess;
}

extern "C" int nvmlDeviceGetComputeRunningProcesses_v3(Device, unsigned* count, void*) {
  *count = 2;
  return kInsufficientSize;
}

extern "C" int nvmlGpmQueryDeviceSupport(Device, GpmSupport* support) {
  support->is_supported = 1;
  return kSuccess;
}

extern "C" int nvmlGpmSampleAlloc(GpmSample* sample) {
  *sample = reinterpret_cast<GpmSample>(&the_sample);
  return kSuccess;
}

extern "C" int nvmlGpmSampleFree(GpmSample) { return kSuccess; }
extern "C" int nvmlGpmSampleGet(Device, GpmSample) { return kNoPermission; }
extern "C" int nvmlGpmMetricsGet(GpmMetrics*) { return kNoPermission; }
