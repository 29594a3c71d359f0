#include "cuda/gpu_meter.h"

#include <cstddef>
#include <type_traits>

#include "cuda/nvml.h"
#include "gpu.h"

#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

namespace slipstream::cuda {
namespace {

#if __has_include(<nvml.h>)
static_assert(nvml::kGpmVersion == NVML_GPM_METRICS_GET_VERSION);
static_assert(nvml::kGpmVersion == NVML_GPM_SUPPORT_VERSION);
static_assert(nvml::kGpmSmUtil == NVML_GPM_METRIC_SM_UTIL);
static_assert(nvml::kGpmDramBwUtil == NVML_GPM_METRIC_DRAM_BW_UTIL);
static_assert(nvml::kGpuUtilizationSamples == NVML_GPU_UTILIZATION_SAMPLES);
static_assert(nvml::kSuccess == NVML_SUCCESS);
static_assert(sizeof(nvml::GpmSupport) == sizeof(nvmlGpmSupport_t));
static_assert(sizeof(nvml::GpmMetric) == sizeof(nvmlGpmMetric_t));
static_assert(offsetof(nvml::GpmMetric, value) == offsetof(nvmlGpmMetric_t, value));
static_assert(offsetof(nvml::GpmMetric, status) == offsetof(nvmlGpmMetric_t, nvmlReturn));
static_assert(offsetof(nvml::GpmMetrics, first) == offsetof(nvmlGpmMetricsGet_t, sample1));
static_assert(offsetof(nvml::GpmMetrics, second) == offsetof(nvmlGpmMetricsGet_t, sample2));
static_assert(offsetof(nvml::GpmMetrics, metrics) == offsetof(nvmlGpmMetricsGet_t, metrics));
static_assert(sizeof(nvml::Sample) == sizeof(nvmlSample_t));
static_assert(offsetof(nvml::Sample, value) == offsetof(nvmlSample_t, sampleValue));
#endif

using GpuMeterTest = test::GpuTest;

void spin(double seconds) {
  const Stream stream(0);
  delay_async(seconds * 1e6, stream);
  stream.synchronize();
}

void expect_fraction(const std::optional<double>& value) {
  if (!value) return;
  EXPECT_GE(*value, 0.0);
  EXPECT_LE(*value, 1.0);
}

TEST_F(GpuMeterTest, BusyGpuGivesFractionsOrNoteWithReason) {
  GpuMeter meter(0);
  meter.start();
  spin(1.5);
  const GpuUse use = meter.use();
  for (const auto& value : {use.sm_activity, use.dram_use, use.gpu_utilization})
    expect_fraction(value);
  EXPECT_EQ(use.note.empty(), use.sm_activity && use.dram_use && use.gpu_utilization) << use.note;
  EXPECT_GE(use.processes.value_or(1), 1U);
  RecordProperty("note", use.note);
}

TEST_F(GpuMeterTest, OneThreadGivesHighGpuUtilizationButLowSmActivity) {
  GpuMeter meter(0);
  meter.start();
  spin(3);
  const GpuUse use = meter.use();
  if (!use.sm_activity && !use.gpu_utilization) GTEST_SKIP() << use.note;
  if (use.sm_activity) {
    EXPECT_LT(*use.sm_activity, 0.2);
  }
  if (use.gpu_utilization) {
    EXPECT_GT(*use.gpu_utilization, 0.3);
  }
}

TEST_F(GpuMeterTest, IntervalTooShortGivesNote) {
  GpuMeter meter(0);
  meter.start();
  EXPECT_FALSE(meter.use().note.empty());
}

TEST_F(GpuMeterTest, MissingDeviceGivesNoteAndNoCudaError) {
  EXPECT_NE(GpuMeter(1000).use().note.find("no CUDA device 1000"), std::string::npos);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace slipstream::cuda
