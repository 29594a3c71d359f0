#include <algorithm>

#include "doctor/examined_pipeline.h"
#include "doctor/findings.h"
#include "doctor/situation.h"

namespace slipstream {

std::vector<DeviceCost> ExaminedPipeline::device_costs() const {
  std::vector<DeviceCost> costs;
  for (const MeasuredStep& step : device_)
    if (step.rate.is_measured()) costs.push_back(make_device_cost(step));
  return costs;
}

void ExaminedPipeline::note_findings(Observations& observed) const {
  const auto add = [&](std::optional<std::string> finding) {
    if (finding) observed.warnings.push_back(std::move(*finding));
  };
  const TrainingRate& device = levels_.front().training;
  if (device.is_measured()) {
    add(depends_on_data(device.by_item()));
    add(writes_into_input(device.last()));
    if (with_workers_) add(slowdown_with_workers(device, *with_workers_));
  }
  if (levels_.back().training.is_measured()) {
    add(diverges(levels_.back().training.last()));
    add(skips(levels_.back().training.last()));
  }
  add(shares_gpu(usage_.gpu_processes()));
  if (one_->is_cold() || all_->is_cold() || levels_.back().training.is_cold())
    observed.warnings.emplace_back(
        "the cache was not full yet when its loader was measured: later epochs are faster; raise "
        "the budget");
}

Observations ExaminedPipeline::describe() const {
  Observations observed;
  const Plan::Schedule& schedule = plan_.schedule;
  observed.batch_size = batch_size();
  observed.workers = schedule.loader.num_workers;
  observed.slabs = schedule.loader.prefetch_batches + 1 + schedule.run_ahead;
  observed.situation = make_situation(trainer_, plan_, bytes_per_sample(one_->counters()));
  return observed;
}

/// Tries formats while there is time. A trial of at most 1 % of the budget always runs, because the
/// turns may have used all of it.
void ExaminedPipeline::try_formats(Observations& observed) {
  constexpr double kNextToNothing = 0.01;  // share of the budget
  const TrainingRate& device = levels_.front().training;
  const auto has_time = [&] {
    const double left_s = options_.budget_s - seconds();
    if (!device.is_measured()) return left_s > 0;
    return 1 / device.rate().value <= std::max(left_s, kNextToNothing * options_.budget_s);
  };
  Trials trials(trainer_, has_time, options_.stop);
  observed.situation.unused_fields = unused_fields(trials, plan_);
  observed.situation.wires = smaller_wires(trials, plan_);
  guard_.restore();
  std::string left_out;
  for (const std::string& what : trials.left_out())
    left_out += (left_out.empty() ? "" : ", ") + what;
  if (!left_out.empty())
    observed.warnings.push_back("not tried: " + left_out + ": raise the budget");
}

void ExaminedPipeline::add_findings(Observations& observed) {
  observed.host = host_costs(*one_, *all_, trainer_.pipeline().transforms());
  observed.device = device_costs();
  observed.line_cpu_s = line_cpu_s(levels_.front().training);
  if (augment_ && augment_->rate.is_measured())
    observed.situation.augment_s = make_device_cost(*augment_).seconds;
  if (observed.situation.on_gpu && !stopped()) try_formats(observed);
  if (jpeg_ && jpeg_->is_measured()) observed.situation.wires.push_back(jpeg_->choice(plan_));
  const TrainingRate& whole = levels_.back().training;
  observed.utilization = usage_.utilization(
      observed.situation.cores,
      whole.is_measured() ? static_cast<double>(whole.counters().front().bytes) : 0);
  note_findings(observed);
}

}  // namespace slipstream
