#include <algorithm>

#include "core/seconds_since.h"
#include "doctor/examiner.h"
#include "doctor/findings.h"
#include "doctor/pipeline_model.h"
#include "doctor/situation.h"

namespace slipstream {

std::vector<DeviceCost> Examiner::device_costs() const {
  std::vector<DeviceCost> costs;
  for (const MeasuredStep& step : device_)
    if (step.rate.is_measured()) costs.push_back(make_device_cost(step));
  return costs;
}

void Examiner::note_findings(Observations& observed) const {
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
  const auto missing = [&](const std::string& what, const std::string& error) {
    if (!error.empty()) observed.warnings.push_back("not measured: " + what + ": " + error);
  };
  if (!all_->is_measured()) missing("nothing cached, loader alone", all_error_);
  missing("half of the workers, loader alone", half_error_);
  missing("the step beside busy workers", with_workers_error_);
  for (const MeasuredStep& step : device_) missing(step.name + " alone", step.error);
  if (augment_) missing("transforms on the device", augment_->error);
}

/// What is known without a measurement.
Observations Examiner::declared() const {
  Observations observed;
  const Plan::Schedule& schedule = plan_.schedule;
  observed.batch_size = trainer_.pipeline().options().batch_size;
  observed.workers = schedule.loader.num_workers;
  observed.slabs = schedule.loader.prefetch_batches + 1 + schedule.run_ahead;
  observed.situation = make_situation(trainer_, plan_, bytes_per_sample(one_->counters()));
  return observed;
}

/// A step that takes next to nothing of the budget is tried although the turns used all of it.
void Examiner::try_formats(Observations& observed) {
  constexpr double kNextToNothing = 0.01;  // of the budget
  const auto has_time = [this] {
    const double left_s = options_.budget_s - seconds_since(start_);
    if (known_step_s() <= 0) return left_s > 0;
    return known_step_s() <= std::max(left_s, kNextToNothing * options_.budget_s);
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

Observations Examiner::observations() {
  Observations observed = declared();
  observed.capacity = measure_capacity(observed.situation.cores);
  std::string first_error;
  for (MeasuredLevel& level : levels_) {
    if (!level.training.is_measured() && level.error.empty())
      level.error = stopped() ? "interrupted" : "no steady step was seen; raise the budget";
    if (level.plan.is_essential && !level.training.is_measured() && first_error.empty())
      first_error = level.error;
    observed.levels.push_back(make_level(level, *all_, observed.batch_size));
  }
  const auto is_there = [&](std::size_t i) { return levels_[i].training.is_measured(); };
  if (!stopped() && !is_there(0) && !is_there(levels_.size() - 1)) throw Error(first_error);
  observed.host = host_costs(*one_, *all_, trainer_.pipeline().transforms());
  if (all_->is_measured()) observed.rate_of_all_workers = all_->rate();
  observed.rate_of_one_worker = one_->rate();
  if (half_ && half_->is_measured()) observed.rate_of_half_of_workers = half_->rate();
  observed.device = device_costs();
  observed.line_cpu_s = line_cpu_s(levels_.front().training);
  if (augment_ && augment_->rate.is_measured())
    observed.situation.augment_s = make_device_cost(*augment_).seconds;
  if (observed.situation.on_gpu && !stopped()) try_formats(observed);
  if (jpeg_ && jpeg_->is_measured()) {
    observed.situation.wires.push_back(jpeg_->choice(plan_));
  }
  const TrainingRate& whole = levels_.back().training;
  observed.utilization = usage_.utilization(
      observed.situation.cores,
      whole.is_measured() ? static_cast<double>(whole.counters().front().bytes) : 0);
  note_findings(observed);
  return observed;
}

}  // namespace slipstream
