#pragma once

#include <vector>

#include "core/fork.h"
#include "core/schedule.h"
#include "engine/context_parts.h"
#include "engine/device_step.h"
#include "engine/run_hooks.h"

namespace slipstream {

/// Keeps `lane` busy for about `microseconds`: with a spinning kernel on a GPU, by sleeping on a
/// CPU.
void delay_lane(Lane& lane, double microseconds);

/// Adds the delays and probes that `hooks` requests for a run on `lanes` to `probe` and `forks`.
/// `lanes` must outlive them.
void apply_hooks(const RunHooks& hooks, const std::vector<LaneBinding>& lanes, ScheduleProbe& probe,
                 ForkProbe& forks);

/// Makes the forks of a context run with a probe during the lifetime of this object.
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
