#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <thread>

#include "core/seconds_since.h"
#include "diagnosis/model_parts.h"
#include "doctor/drained_rate.h"
#include "doctor/findings.h"
#include "doctor/free_memory.h"
#include "doctor/ladder.h"
#include "doctor/situation.h"
#include "doctor/training_rate.h"
#include "doctor/turns.h"
#include "doctor/untouched.h"
#include "doctor/usage.h"
#include "slipstream/doctor.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstShare = 0.08;  ///< of the budget: one worker alone
constexpr double kPoolShare = 0.03;   ///< of the budget: all workers, before caches are sized
constexpr double kFillShare = 0.15;   ///< of the budget at most, to fill a plan's cache
constexpr double kLastShare = 0.05;   ///< of the budget, for what comes after the turns
constexpr double kWholeWeight = 4;    ///< the pipeline as it is: most depends on it
constexpr double kDrainedWeight = 2;
constexpr unsigned kManyWorkers = 4;  ///< that may get in each other's way

class Examiner {
 public:
  Examiner(Trainer& trainer, const Plan& plan, const DoctorOptions& options)
      : trainer_(trainer),
        plan_(plan),
        options_(options),
        untouched_(trainer),
        usage_(trainer.context()) {}

  Examination run();

 private:
  bool stopped() const { return options_.stop && options_.stop(); }
  double left() const { return (1 - kLastShare) * options_.budget_s - seconds_since(start_); }
  void say(const std::string& what) const {
    if (options_.say) options_.say(what);
  }
  void measure_one_worker();
  void measure_pool();
  double pool_rate() const;
  void declare_rungs();
  void declare_device();
  void declare_tasks();
  void attempt(Task& task, double seconds);
  void measure_beside_workers(double seconds);
  void train(TrainingRate& rate, double seconds);
  std::size_t samples_to_cache(double bytes) const;
  std::size_t batches_to_cache() const;

  std::vector<HostStepCost> host_costs() const;
  std::vector<DeviceCost> device_costs() const;
  void note_findings(Observations& observed) const;
  Observations declared() const;
  Observations observations();

  Trainer& trainer_;
  const Plan& plan_;
  const DoctorOptions& options_;
  Untouched untouched_;
  const Clock::time_point start_ = Clock::now();

  std::optional<DrainedRate> one_;
  std::optional<DrainedRate> all_, half_;
  double pool_turn_s_ = 0;  ///< that measure_pool() took; 0: it could not
  std::string all_error_, half_error_;
  std::deque<MeasuredRung> rungs_;
  std::deque<MeasuredStep> device_;
  std::optional<MeasuredStep> augment_;
  std::optional<TrainingRate> beside_;
  std::string beside_error_;
  std::deque<Task> tasks_;
  Usage usage_;  ///< with nothing cached
};

void Examiner::measure_one_worker() {
  say("one worker alone");
  Plan alone = plan_;
  alone.schedule.loader.workers = 1;
  alone.schedule.loader.read_ahead.reads = 0;
  one_.emplace(alone, std::nullopt);
  one_->measure(trainer_, kFirstShare * options_.budget_s, kFillShare * options_.budget_s,
                options_.stop);
}

/// The pool's first turn, before caches are sized. A failure is met again, and told, in its next.
void Examiner::measure_pool() {
  all_.emplace(plan_, std::nullopt);
  if (plan_.schedule.loader.cache) return;
  say("all workers");
  const auto start = Clock::now();
  try {
    all_->measure(trainer_, kPoolShare * options_.budget_s, 0, options_.stop);
    pool_turn_s_ = seconds_since(start);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception&) {
    untouched_.put_back();
  }
}

/// Samples/s.
double Examiner::pool_rate() const {
  if (all_->is_measured()) return all_->samples_per_second().value;
  return one_->samples_per_second().value * plan_.schedule.loader.workers;
}

/// Enough that their mean cost is within 5 % of all samples', and more than the CPU's caches hold;
/// bounded by memory and by the time it takes to make them.
std::size_t Examiner::samples_to_cache(double bytes) const {
  const double variation = variation_of(one_->laps());
  const double by_variance = std::pow(1.96 * variation / 0.05, 2);
  const double by_cache =
      bytes > 0 ? 1.5 * static_cast<double>(last_level_cache_bytes()) / bytes : 1;
  const double by_time = 0.02 * options_.budget_s * pool_rate();
  const double by_memory =
      bytes > 0 ? static_cast<double>(free_memory_bytes()) / 8 / bytes : by_time;
  const double wanted = std::min({std::max(by_variance, by_cache), by_time, by_memory});
  return static_cast<std::size_t>(std::clamp(wanted, 8.0, 65536.0));
}

std::size_t Examiner::batches_to_cache() const {
  const double rate = pool_rate();
  const double batch_s =
      rate > 0 ? static_cast<double>(trainer_.pipeline().options().batch_size) / rate : 0;
  return batch_s > 0.02 * options_.budget_s ? 2 : 4;
}

void Examiner::declare_rungs() {
  std::vector<double> bytes = bytes_of(one_->counters());
  const std::size_t batches = batches_to_cache();
  for (RungPlan& rung :
       ladder_of(trainer_.pipeline(), plan_, trainer_.context().kind() == DeviceKind::cuda)) {
    if (rung.cut) {
      const bool of_batches = rung.step >= bytes.size() || rung.cut->after == "collate";
      rung.cut->items = of_batches ? batches : samples_to_cache(bytes[rung.step]);
    }
    rungs_.emplace_back(std::move(rung));
  }
}

void Examiner::declare_device() {
  const Pipeline& pipeline = trainer_.pipeline();
  for (MeasuredStep& step :
       steps_alone(pipeline, plan_, trainer_.context().kind(), batches_to_cache()))
    device_.push_back(std::move(step));
  const std::string first =
      situation_of(trainer_, plan_, bytes_of(one_->counters())).on_device_from;
  if (first.empty()) return;
  const Plan moved = with_device_transforms(trainer_, plan_, first);
  augment_.emplace(kAugmentStep, TrainingRate(moved, Cut{"copy", 2}, kAugmentStep));
}

void Examiner::train(TrainingRate& rate, double seconds) {
  rate.measure(trainer_, seconds, options_.stop);
  untouched_.put_back();
}

void Examiner::measure_beside_workers(double seconds) {
  const auto loader = trainer_.make_loader(plan_, std::nullopt);
  std::jthread draining([&loader](const std::stop_token& stop) {
    try {
      while (!stop.stop_requested())
        if (loader->ready())
          loader->release(loader->next(), nullptr);
        else
          std::this_thread::sleep_for(std::chrono::microseconds(200));
    } catch (const std::exception&) {
      // The loader's own task says what is wrong with it.
    }
  });
  train(*beside_, seconds);
}

void Examiner::declare_tasks() {
  const auto add_rung = [this](MeasuredRung& rung, bool is_essential) {
    const bool is_whole = !rung.plan.cut;
    tasks_.push_back({rung.plan.name + ", with training",
                      [this, &rung, is_whole](double seconds) {
                        if (!is_whole) return train(rung.training, seconds);
                        usage_.during([&] { train(rung.training, seconds); });
                      },
                      &rung.error, is_essential, is_whole ? kWholeWeight : 1,
                      [&rung] { return figure_of(rung.training); }});
  };
  if (plan_.schedule.loader.workers >= kManyWorkers) {
    Plan half = plan_;
    half.schedule.loader.workers /= 2;
    half_.emplace(half, std::nullopt);
  }
  rungs_.back().training.fill_cache_for(kFillShare * options_.budget_s);
  for (MeasuredRung& rung : rungs_)
    if (rung.plan.is_essential) add_rung(rung, true);
  tasks_.push_back({"nothing cached, drained",
                    [this](double seconds) {
                      all_->measure(trainer_, seconds, kFillShare * options_.budget_s,
                                    options_.stop);
                    },
                    &all_error_, pool_turn_s_ <= 0, kDrainedWeight,
                    [this] { return figure_of(*all_); }, pool_turn_s_});
  if (half_)
    tasks_.push_back({"half of the workers, drained",
                      [this](double seconds) {
                        half_->measure(trainer_, seconds, kFillShare * options_.budget_s,
                                       options_.stop);
                      },
                      &half_error_, false, 1, [this] { return figure_of(*half_); }});
  for (MeasuredRung& rung : rungs_)
    if (!rung.plan.is_essential) add_rung(rung, false);
  for (MeasuredStep& step : device_)
    tasks_.push_back({step.name + " alone",
                      [this, &step](double seconds) { train(step.rate, seconds); }, &step.error,
                      false, 1, [&step] { return figure_of(step.rate); }});
  for (MeasuredRung& rung : rungs_)
    if (rung.drained)
      tasks_.push_back({rung.plan.name + ", drained",
                        [this, &rung](double seconds) {
                          rung.drained->measure(trainer_, seconds, 0, options_.stop);
                        },
                        &rung.drained_error, false, 1,
                        [&rung] { return figure_of(*rung.drained); }});
  if (augment_)
    tasks_.push_back({"transforms on the device, alone",
                      [this](double seconds) { train(augment_->rate, seconds); }, &augment_->error,
                      false, 1, [this] { return figure_of(augment_->rate); }});
  if (trainer_.context().kind() != DeviceKind::cuda) return;
  beside_.emplace(rungs_.front().plan.how, rungs_.front().plan.cut);
  tasks_.push_back({"device batch beside busy workers",
                    [this](double seconds) { measure_beside_workers(seconds); }, &beside_error_,
                    false, 1, [this] { return figure_of(*beside_); }});
}

void Examiner::attempt(Task& task, double seconds) {
  say(task.what);
  const auto start = Clock::now();
  try {
    task.measure(seconds);
    const double passed = seconds_since(start);
    task.turn_s = task.turn_s > 0 ? std::min(task.turn_s, passed) : passed;
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    *task.error = error.what();
    untouched_.put_back();
  }
}

Examination Examiner::run() {
  measure_one_worker();
  Examination examination;
  if (!one_->is_measured()) {
    examination.observed = declared();
  } else {
    measure_pool();
    declare_rungs();
    declare_device();
    declare_tasks();
    measure_in_turns(tasks_, {.budget_s = options_.budget_s,
                              .left = [this] { return left(); },
                              .stopped = [this] { return stopped(); },
                              .attempt = [this](Task& task, double s) { attempt(task, s); }});
    examination.observed = observations();
    for (const MeasuredRung& rung : rungs_)
      if (!rung.plan.cut && rung.training.is_measured())
        examination.lanes = rung.training.last().lanes;
  }
  examination.interrupted = stopped();
  examination.seconds = seconds_since(start_);
  return examination;
}

std::vector<HostStepCost> Examiner::host_costs() const {
  std::vector<HostStepCost> costs;
  const std::vector<StepCounter>& alone = one_->counters();
  for (std::size_t i = 0; i < alone.size(); ++i) {
    HostStepCost& cost = costs.emplace_back();
    cost.name = alone[i].name;
    cost.group = i == 0 ? Culprit::raw_reading : i == 1 ? Culprit::decode : Culprit::transforms;
    cost.wall_s = one_->laps()[i].wall_s;
    cost.cpu_s = one_->laps()[i].cpu_s;
    cost.bytes = bytes_of(alone)[i];
    for (const NamedOp& transform : trainer_.pipeline().transforms())
      if (transform.name == cost.name) cost.is_random = transform.op.is_random();
    if (!all_->is_measured()) continue;
    const auto samples = static_cast<double>(all_->counters().back().calls);
    cost.wall_of_all_s = all_->counters()[i].wall_s / samples;
    cost.cpu_of_all_s = all_->counters()[i].cpu_s / samples;
  }
  return costs;
}

std::vector<DeviceCost> Examiner::device_costs() const {
  std::vector<DeviceCost> costs;
  for (const MeasuredStep& step : device_)
    if (step.rate.is_measured()) costs.push_back(cost_of(step));
  return costs;
}

void Examiner::note_findings(Observations& observed) const {
  const auto add = [&](std::optional<std::string> finding) {
    if (finding) observed.warnings.push_back(std::move(*finding));
  };
  const TrainingRate& device = rungs_.front().training;
  if (device.is_measured()) {
    add(depends_on_data(device.by_item()));
    add(writes_into_input(device.last()));
    if (beside_) add(slower_beside_workers(device, *beside_));
  }
  if (rungs_.back().training.is_measured()) {
    add(diverges(rungs_.back().training.last()));
    add(skips(rungs_.back().training.last()));
  }
  add(shares_gpu(usage_.gpu_processes()));
  if (one_->is_cold() || all_->is_cold() || rungs_.back().training.is_cold())
    observed.warnings.emplace_back(
        "the cache was not full yet when its loader was measured: later epochs are faster; raise "
        "the budget");
  const auto missing = [&](const std::string& what, const std::string& error) {
    if (!error.empty()) observed.warnings.push_back("not measured: " + what + ": " + error);
  };
  if (!all_->is_measured()) missing("nothing cached, drained", all_error_);
  missing("half of the workers, drained", half_error_);
  missing("the step beside busy workers", beside_error_);
  for (const MeasuredStep& step : device_) missing(step.name + " alone", step.error);
  if (augment_) missing("transforms on the device", augment_->error);
}

/// What is known without a measurement.
Observations Examiner::declared() const {
  Observations observed;
  const Plan::Schedule& schedule = plan_.schedule;
  observed.batch_size = trainer_.pipeline().options().batch_size;
  observed.workers = schedule.loader.workers;
  observed.slabs = schedule.loader.prefetch + 1 + schedule.run_ahead;
  observed.situation = situation_of(trainer_, plan_, bytes_of(one_->counters()));
  return observed;
}

Observations Examiner::observations() {
  Observations observed = declared();
  observed.capacity = measure_capacity(observed.situation.cores);
  std::string first_error;
  for (MeasuredRung& rung : rungs_) {
    if (!rung.training.is_measured() && rung.error.empty())
      rung.error = stopped() ? "interrupted" : "no steady step was seen; raise the budget";
    if (rung.plan.is_essential && !rung.training.is_measured() && first_error.empty())
      first_error = rung.error;
    observed.rungs.push_back(rung_of(rung, *all_, observed.batch_size));
  }
  const auto is_there = [&](std::size_t i) { return rungs_[i].training.is_measured(); };
  if (!stopped() && !is_there(0) && !is_there(rungs_.size() - 1)) throw Error(first_error);
  observed.host = host_costs();
  if (all_->is_measured()) observed.drained_of_all = all_->samples_per_second();
  observed.drained_of_one = one_->samples_per_second();
  if (half_ && half_->is_measured()) observed.drained_of_half = half_->samples_per_second();
  observed.device = device_costs();
  observed.line_cpu_s = line_cpu_s(rungs_.front().training);
  if (augment_ && augment_->rate.is_measured())
    observed.situation.augment_s = cost_of(*augment_).seconds;
  if (observed.situation.on_gpu && !stopped()) {
    observed.situation.unused_fields = unused_fields(trainer_, plan_);
    untouched_.put_back();
  }
  const TrainingRate& whole = rungs_.back().training;
  observed.utilisation = usage_.utilisation(
      observed.situation.cores,
      whole.is_measured() ? static_cast<double>(whole.counters().front().bytes) : 0);
  note_findings(observed);
  return observed;
}

}  // namespace

Examination examine(Trainer& trainer, const Plan& plan, const DoctorOptions& options) {
  if (!(options.budget_s > 0)) throw Refused("the doctor's budget must be more than 0 seconds");
  return Examiner(trainer, plan, options).run();
}

}  // namespace slipstream
