#include "doctor/cache_sizes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

constexpr double kFillBudget = 0.02;  ///< share of the budget for producing a cache's samples
constexpr double kFillTurn = 0.004;   ///< share of the budget if each turn fills the cache again
constexpr double kPrecision = 0.05;   ///< relative error of the mean cost of cached samples
constexpr double kFewestToCache = 8, kMostToCache = 65536;
constexpr double kMostCopiedBytes = 512 << 20;  ///< limit for copying samples to each worker

}  // namespace

CacheSizes::CacheSizes(SampleCosts costs, double samples_per_second, std::size_t batch_size,
                       const Limits& limits)
    : costs_(std::move(costs)),
      samples_per_second_(samples_per_second),
      batch_size_(static_cast<double>(batch_size)),
      limits_(limits) {}

double CacheSizes::batch_s() const {
  return samples_per_second_ > 0 ? batch_size_ / samples_per_second_ : 0;
}

std::size_t CacheSizes::batches() const {
  if (batch_s() > 0.1 * limits_.budget_s) return 1;
  return batch_s() > 0.02 * limits_.budget_s ? 2 : 4;
}

/// Number of samples that can be produced in the time for filling a cache.
double CacheSizes::samples_in_time() const {
  if (costs_.filling == CacheFilling::in_turns)
    return kFillTurn * limits_.budget_s * samples_per_second_;
  if (costs_.filling == CacheFilling::before_turns || costs_.seconds.empty())
    return kFillBudget * limits_.budget_s * samples_per_second_;
  const double total_s = std::accumulate(costs_.seconds.begin(), costs_.seconds.end(), 0.0);
  const double each_s = total_s / static_cast<double>(costs_.seconds.size());
  return kFillBudget * limits_.budget_s / std::max(each_s, 1e-9);
}

std::size_t CacheSizes::samples_after(std::size_t step) const {
  const bool is_at_once = costs_.filling == CacheFilling::at_once;
  double bytes = 0, all_bytes = 0;  // size of a sample in one cache, and in all filled caches
  for (std::size_t i = 0; i < costs_.bytes.size(); ++i)
    if (is_at_once || i == step) {
      bytes = std::max(bytes, costs_.bytes[i]);
      all_bytes += costs_.bytes[i];
    }
  // The mean of n samples has a 95 % interval of +- 1.96 * variation / sqrt(n). Solved for n:
  const double by_variance = std::pow(1.96 * compute_variation(costs_.seconds) / kPrecision, 2);
  const double by_cpu_cache = 1.5 * limits_.cpu_cache_bytes / std::max(1.0, bytes);
  const double memory_bytes = limits_.free_bytes / 8;
  const double by_memory = (is_at_once ? std::min(kMostCopiedBytes, memory_bytes) : memory_bytes) /
                           std::max(1.0, all_bytes);
  const double wanted =
      std::min({std::max(by_variance, by_cpu_cache), samples_in_time(), by_memory});
  return static_cast<std::size_t>(std::clamp(wanted, kFewestToCache, kMostToCache));
}

}  // namespace slipstream
