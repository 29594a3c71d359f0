#include "doctor/trials.h"

#include <utility>

namespace slipstream {

Trials::Trials(Trainer& trainer, std::function<bool()> has_time, std::function<bool()> stop)
    : trainer_(trainer), has_time_(std::move(has_time)), stop_(std::move(stop)) {}

bool Trials::trains(const Plan& plan, const std::string& what) {
  if (stop_ && stop_()) return false;
  if (!has_time_()) {
    left_out_.push_back(what);
    return false;
  }
  const auto steps = trainer_.pipeline().host_steps(plan.schedule.loader.on_device);
  RunOptions options;
  options.steps = 1;
  options.digest = false;
  // The cut before collating still builds a batch in the plan's format, but from a single sample.
  options.cut = Cut{steps.at(steps.size() - 2), 1};
  options.stop = stop_;
  try {
    return !trainer_.run(plan, options).interrupted;
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace slipstream
