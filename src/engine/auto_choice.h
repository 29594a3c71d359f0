#pragma once

#include <cstddef>
#include <optional>

#include "engine/steady_rate.h"

namespace slipstream {

/// The rate of a plan in `auto`.
struct PlanRate {
  std::optional<Measured> rate = std::nullopt;  ///< steps/s; no value: it has no steady steps
  std::size_t steps = 0;                        ///< number of steps that were measured
  /// Whether it is certain that the steps did not mainly use prefetched batches.
  bool is_conclusive = true;
};

/// Chooses the plan that `auto` keeps: pipelined if its steady steps were faster; serial if they
/// were not, or if either plan had no steady steps. The reason says whether the difference is
/// larger than the noise.
AutoChoice choose_mode(const PlanRate& serial, const PlanRate& pipelined);
AutoChoice choose_mode(const SteadyRate& serial, const SteadyRate& pipelined);
/// Returns `choice`, or the plan with CUDA graphs if its steady steps were faster than those of the
/// chosen plan.
AutoChoice with_graph(AutoChoice choice, const PlanRate& graph);
AutoChoice with_graph(AutoChoice choice, const SteadyRate& graph);

}  // namespace slipstream
