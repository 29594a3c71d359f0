#include "doctor/usage.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/seconds_since.h"

namespace slipstream {
namespace {

double process_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

void MeanGpuUse::Mean::add(const std::optional<double>& share, double over_s) {
  if (!share) return;
  product_s += *share * over_s;
  seconds += over_s;
}

std::optional<double> MeanGpuUse::Mean::value() const {
  return seconds > 0 ? std::optional(product_s / seconds) : std::nullopt;
}

void MeanGpuUse::add(const cuda::GpuUse& use, double seconds) {
  sm_activity_.add(use.sm_activity, seconds);
  dram_use_.add(use.dram_use, seconds);
  gpu_utilization_.add(use.gpu_utilization, seconds);
  processes_ = use.processes;
  if (!use.note.empty()) note_ = use.note;
}

cuda::GpuUse MeanGpuUse::value() const {
  cuda::GpuUse use{sm_activity_.value(), dram_use_.value(), gpu_utilization_.value(), processes_,
                   ""};
  if (!use.sm_activity || !use.dram_use || !use.gpu_utilization) use.note = note_;
  return use;
}

void Usage::during(const std::function<void()>& run) {
  std::optional<cuda::GpuMeter> meter;
  if (context_.kind() == DeviceKind::cuda) {
    meter.emplace(context_.device().index());
    meter->start();
  }
  const auto start = std::chrono::steady_clock::now();
  const double cpu_s = process_cpu_s();
  run();
  const double passed_s = seconds_since(start);
  wall_s_ += passed_s;
  cpu_s_ += process_cpu_s() - cpu_s;
  if (meter) gpu_.add(meter->use(), passed_s);
}

Utilization Usage::utilization(unsigned cores, double bytes) const {
  const cuda::GpuUse gpu = gpu_.value();
  Utilization use{gpu.sm_activity, gpu.dram_use, gpu.gpu_utilization, gpu.note, 0, 0};
  if (wall_s_ <= 0) return use;
  use.cpu_share = std::min(1.0, cpu_s_ / wall_s_ / cores);
  use.read_bytes_per_second = bytes / wall_s_;
  return use;
}

}  // namespace slipstream
