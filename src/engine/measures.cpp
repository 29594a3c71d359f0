#include "engine/measures.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <sys/resource.h>

#include <algorithm>

#include "engine/steady_rate.h"

namespace slipstream {
namespace {

constexpr std::uint64_t kMostWarmUpSteps = 20;
/// Largest share of steps that may use prefetched batches and still all count.
constexpr double kFewSpared = 0.05;

/// Returns the first step that counts for the rate. Steps after the warm-up that used prefetched
/// batches are left out only if at least half of the steps remain.
std::size_t first_rated(const RunResult& result, const std::optional<Cut>& cut,
                        std::size_t batch_size) {
  const std::size_t steps = result.step_end_s.size();
  const auto warm = std::max<std::size_t>(1, warm_up_steps(steps));
  if (!fills_batches(result, cut)) return warm;
  const double spared = spared_steps(result.inputs, result.step_end_s, warm,
                                     partly_filled_batches(result, batch_size));
  if (spared <= kFewSpared * static_cast<double>(steps - warm)) return warm;
  const std::size_t steady =
      first_steady_step(result.inputs, result.step_end_s, result.lanes.size());
  return steady <= warm + (steps - warm) / 2 ? std::max(warm, steady) : warm;
}

}  // namespace

std::uint64_t warm_up_steps(std::uint64_t steps) { return std::min(kMostWarmUpSteps, steps / 4); }

Measured step_rate(const RunResult& result, const std::optional<Cut>& cut, std::size_t batch_size) {
  if (result.step_end_s.size() < 2) return {0, 0, 0, "steps/s", 0};
  SteadyRate rate(cut);
  rate.add_from(first_rated(result, cut, batch_size), result, batch_size);
  return rate.rate();
}

std::size_t reserved_bytes(c10::Device device) {
  if (!device.is_cuda()) return 0;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return static_cast<std::size_t>(stats.reserved_bytes[0].current);
}

std::size_t peak_bytes(c10::Device device) {
  if (device.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    return static_cast<std::size_t>(stats.allocated_bytes[0].peak);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

void reset_peak(c10::Device device) {
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}

}  // namespace slipstream
