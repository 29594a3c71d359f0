#pragma once

#include <vector>

#include "core/fork.h"
#include "core/schedule.h"
#include "engine/context_parts.h"
#include "engine/device_step.h"
#include "engine/run_hooks.h"

namespace slipstream {

/// Keeps `lane` busy for about `microseconds`: a spinning kernel, or sleep.
void delay_lane(Lane& lane, double microseconds);

/// Adds what the hooks of a run on `lanes` say to its probes. `lanes` must outlive them.
void apply_hooks(const RunHooks& hooks, const std::vector<LaneBinding>& lanes, ScheduleProbe& probe,
                 ForkProbe& forks);

/// Runs a context's forks with a probe while it lives.
class ProbedForks {
 public:
  ProbedForks(Context& context, const ForkProbe& probe) : context_(context) {
    set_fork_probe(context, &probe);
  }
  ~ProbedForks() { set_fork_probe(context_, nullptr); }
  ProbedForks(const ProbedForks&) = delete;
  ProbedForks& operator=(const ProbedForks&) = delete;

 private:
  Context& context_;
};

}  // namespace slipstream
