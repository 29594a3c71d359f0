#include <algorithm>
#include <cmath>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

constexpr double kAlike = 0.1;  ///< largest relative difference between equal costs
constexpr double kSure = 1.96;  ///< standard errors

/// Standard deviation divided by the mean of a sample's time in all host steps together.
double variation_of_samples(const Observations& observed) {
  std::size_t samples = 0;
  for (const HostStepCost& cost : observed.host) samples = std::max(samples, cost.wall_s.size());
  std::vector<double> totals(samples);
  for (const HostStepCost& cost : observed.host)
    for (std::size_t i = 0; i < samples && !cost.wall_s.empty(); ++i)
      totals[i] += cost.wall_s[i % cost.wall_s.size()];
  return compute_variation(totals);
}

/// Largest relative difference to expect between the mean cost of the cached samples and the mean
/// cost of all samples.
double sampling_error(const Level& level, double variation) {
  const bool is_of_samples =
      !level.after.empty() && level.after != "copy" && level.after != "collate";
  if (!is_of_samples || level.items == 0) return 0;
  return kSure * variation / std::sqrt(static_cast<double>(level.items));
}

/// Returns by how much, relative, `longer` is faster than `shorter` although it does more work. 0
/// if this is not certain, or too little to count.
double contradiction(const Level& shorter, const Level& longer, double variation) {
  const Measured &less = *shorter.with_training, &more = *longer.with_training;
  if (less.n == 0 || more.n == 0 || !(less.value > 0)) return 0;
  const double alike =
      std::max({kAlike, sampling_error(shorter, variation), sampling_error(longer, variation)});
  const double by = more.value / less.value - 1;
  return less.high < more.low && by > alike ? by : 0;
}

/// Number of host steps up to and including `step`; 0 if it is not a host step.
std::size_t steps_to(const Observations& observed, const std::string& step) {
  for (std::size_t i = 0; i < observed.host.size(); ++i)
    if (observed.host[i].name == step) return i + 1;
  return 0;
}

bool is_ahead_of_cache(const Observations& observed, const Level& level) {
  const auto& cache = observed.situation.plan.schedule.loader.cache;
  const std::size_t cut = steps_to(observed, level.after);
  return cache && cut > 0 && cut < steps_to(observed, cache->after);
}

bool is_of_whole_images(const Observations& observed, const Level& level) {
  const std::size_t cut = steps_to(observed, level.after);
  return observed.situation.decodes_parts && cut > 0 &&
         observed.host[cut - 1].group == Bottleneck::decode;
}

}  // namespace

bool is_unordered(const Observations& observed, const Level& level) {
  const bool is_host_batch = level.name == kPinnedLevel || level.name == kPageableLevel;
  if (is_host_batch) return level.name != host_level(observed);
  return is_ahead_of_cache(observed, level) || is_of_whole_images(observed, level);
}

std::optional<Contradiction> find_contradiction(const Observations& observed) {
  std::optional<Contradiction> worst;
  const double variation = variation_of_samples(observed);
  const Level* shorter = nullptr;  // the slowest so far, so later levels contradict it the most
  for (const Level& level : observed.levels) {
    if (!level.with_training || is_unordered(observed, level)) continue;
    if (shorter != nullptr) {
      const double by = contradiction(*shorter, level, variation);
      if (by > (worst ? worst->by : 0)) worst = {shorter->name, level.name, by};
    }
    if (shorter == nullptr || level.with_training->high < shorter->with_training->high)
      shorter = &level;
  }
  return worst;
}

}  // namespace slipstream
