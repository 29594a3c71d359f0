#include <algorithm>

#include "diagnosis/model_parts.h"

namespace slipstream {
namespace {

/// Cached samples may cost this much more or less than all do.
constexpr double kAlike = 0.1;

}  // namespace

bool is_aside(const Observations& observed, const Rung& rung) {
  const bool is_host_batch = rung.name == kPinnedRung || rung.name == kPageableRung;
  return is_host_batch && rung.name != host_rung(observed);
}

double contradiction(const Measured& shorter, const Measured& longer) {
  if (shorter.n == 0 || longer.n == 0 || !(shorter.value > 0)) return 0;
  const double by = longer.value / shorter.value - 1;
  return shorter.high < longer.low && by > kAlike ? by : 0;
}

std::optional<Contradiction> contradiction_of(const Observations& observed) {
  std::optional<Contradiction> worst;
  const Rung* shorter = nullptr;  // the slowest so far: with it what follows disagrees most
  for (const Rung& rung : observed.rungs) {
    if (!rung.with_training || is_aside(observed, rung)) continue;
    if (shorter != nullptr) {
      const double by = contradiction(*shorter->with_training, *rung.with_training);
      if (by > (worst ? worst->by : 0)) worst = {shorter->name, rung.name, by};
    }
    if (shorter == nullptr || rung.with_training->high < shorter->with_training->high)
      shorter = &rung;
  }
  return worst;
}

}  // namespace slipstream
