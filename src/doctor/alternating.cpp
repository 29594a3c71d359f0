#include "doctor/alternating.h"

#include <algorithm>
#include <chrono>

#include "core/seconds_since.h"

namespace slipstream {
namespace {

constexpr double kRounds = 3;  ///< largest number of rounds

}  // namespace

void measure_alternately(const std::vector<RateInTurns>& rates, const Alternating& alternating) {
  const auto count = static_cast<double>(rates.size());
  const double turn_s = alternating.turn_s;
  const double fitting = turn_s > 0 ? alternating.budget_s / count / turn_s : kRounds;
  const double rounds =
      alternating.is_single ? 1 : static_cast<unsigned>(std::clamp(fitting, 1.0, kRounds));
  const auto start = std::chrono::steady_clock::now();
  double turns_left = count * rounds;
  for (unsigned round = 0; round < rounds; ++round)
    for (const RateInTurns& rate : rates) {
      const double left_s = std::max(0.0, alternating.budget_s - seconds_since(start));
      if (alternating.stopped && alternating.stopped()) return;
      if (rate.is_measured() && left_s <= 0) continue;
      rate.measure(
          {alternating.budget_s / count / rounds, left_s / turns_left--, alternating.step_s});
    }
}

}  // namespace slipstream
