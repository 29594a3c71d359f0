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

void Usage::during(const std::function<void()>& run) {
  std::optional<cuda::GpuMeter> meter;
  if (context_.kind() == DeviceKind::cuda) {
    meter.emplace(context_.device().index());
    meter->start();
  }
  const auto start = std::chrono::steady_clock::now();
  const double cpu_s = process_cpu_s();
  run();
  wall_s_ += seconds_since(start);
  cpu_s_ += process_cpu_s() - cpu_s;
  if (meter) gpu_ = meter->use();
}

Utilisation Usage::utilisation(unsigned cores, double bytes) const {
  Utilisation use{gpu_.sm_activity, gpu_.dram_use, gpu_.coarse, gpu_.note, 0, 0};
  if (wall_s_ <= 0) return use;
  use.cpu_share = std::min(1.0, cpu_s_ / wall_s_ / cores);
  use.read_bytes_per_second = bytes / wall_s_;
  return use;
}

}  // namespace slipstream
