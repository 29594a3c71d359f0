#include <algorithm>
#include <cmath>
#include <thread>

#include "core/figures.h"
#include "core/number_text.h"
#include "core/seconds_since.h"
#include "core/start_thread.h"
#include "doctor/examiner.h"
#include "doctor/free_memory.h"
#include "doctor/model_parts.h"
#include "doctor/situation.h"
#include "engine/message.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstShare = 0.08;  ///< of the budget: one worker alone
constexpr double kPoolShare = 0.03;   ///< of the budget: all workers, before caches are sized
constexpr double kFillShare = 0.15;   ///< of the budget at most, to fill a plan's cache
constexpr double kWholeWeight = 4;    ///< the pipeline as it is: most depends on it
constexpr double kDrainedWeight = 2;
constexpr unsigned kManyWorkers = 4;  ///< that may get in each other's way

TurnTime first_turn(double seconds) { return {seconds, 2 * seconds}; }

std::string about(double seconds) { return fixed(seconds, decimals_for(seconds, 2)) + " s"; }

}  // namespace

double Examiner::left() const {
  constexpr double kLastShare = 0.05;  // of the budget, for what comes after the turns
  return (1 - kLastShare) * options_.budget_s - seconds_since(start_);
}

void Examiner::measure_one_worker() {
  log_line("one worker alone");
  Plan alone = plan_;
  alone.schedule.loader.num_workers = 1;
  alone.schedule.loader.read_ahead.reads = 0;
  one_.emplace(alone, std::nullopt);
  one_->measure(trainer_, first_turn(kFirstShare * options_.budget_s),
                kFillShare * options_.budget_s, options_.stop);
}

/// The pool's first turn, before caches are sized. A failure is met again, and told, in its next.
void Examiner::measure_pool() {
  all_.emplace(plan_, std::nullopt);
  if (plan_.schedule.loader.cache) return;
  log_line("all workers");
  const auto start = Clock::now();
  try {
    all_->measure(trainer_, first_turn(kPoolShare * options_.budget_s), 0, options_.stop);
    pool_turn_s_ = seconds_since(start);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception&) {
    guard_.restore();
  }
}

/// Samples/s.
double Examiner::pool_rate() const {
  if (all_->is_measured()) return all_->rate().value;
  return one_->rate().value * plan_.schedule.loader.num_workers;
}

/// Enough that their mean cost is within 5 % of all samples', and more than the CPU's caches hold;
/// bounded by memory and by the time it takes to make them.
std::size_t Examiner::samples_to_cache(double bytes) const {
  const double variation = compute_variation(one_->laps());
  const double by_variance = std::pow(1.96 * variation / 0.05, 2);
  const double by_cache =
      bytes > 0 ? 1.5 * static_cast<double>(last_level_cache_bytes()) / bytes : 1;
  const double by_time = 0.02 * options_.budget_s * pool_rate();
  const double by_memory =
      bytes > 0 ? static_cast<double>(free_memory_bytes()) / 8 / bytes : by_time;
  const double wanted = std::min({std::max(by_variance, by_cache), by_time, by_memory});
  return static_cast<std::size_t>(std::clamp(wanted, 8.0, 65536.0));
}

/// That all workers take for one.
double Examiner::batch_s() const {
  const double rate = pool_rate();
  return rate > 0 ? static_cast<double>(trainer_.pipeline().options().batch_size) / rate : 0;
}

std::size_t Examiner::batches_to_cache() const {
  if (batch_s() > 0.1 * options_.budget_s) return 1;
  return batch_s() > 0.02 * options_.budget_s ? 2 : 4;
}

void Examiner::declare_levels() {
  std::vector<double> bytes = bytes_per_sample(one_->counters());
  const std::size_t batches = batches_to_cache();
  for (LevelPlan& level :
       plan_levels(trainer_.pipeline(), plan_, trainer_.context().kind() == DeviceKind::cuda)) {
    if (level.cut) {
      const bool of_batches = level.step >= bytes.size() || level.cut->after == "collate";
      level.cut->items = of_batches ? batches : samples_to_cache(bytes[level.step]);
    }
    levels_.emplace_back(std::move(level));
  }
}

void Examiner::declare_device() {
  const Pipeline& pipeline = trainer_.pipeline();
  for (MeasuredStep& step :
       steps_alone(pipeline, plan_, trainer_.context().kind(), batches_to_cache()))
    device_.push_back(std::move(step));
  const std::string first =
      make_situation(trainer_, plan_, bytes_per_sample(one_->counters())).on_device_from;
  if (trainer_.context().kind() == DeviceKind::cuda)
    if (auto files = with_jpeg_files(pipeline, plan_)) jpeg_.emplace(std::move(*files));
  if (first.empty()) return;
  const Plan moved = with_device_transforms(trainer_, plan_, first);
  augment_ = MeasuredStep{kAugmentStep, TrainingRate(moved, Cut{"copy", 2}, kAugmentStep)};
}

/// The ceiling's, for no step is faster; 0 where that is not known yet.
double Examiner::known_step_s() const {
  const TrainingRate& device = levels_.front().training;
  return device.is_measured() ? 1 / device.rate().value : 0;
}

/// Before the time is spent, that even the least takes longer than what is left.
void Examiner::report_least_time(double seconds, const std::string& why) {
  if (is_overrun_reported_ || seconds <= left()) return;
  is_overrun_reported_ = true;
  log_line(why + ": the fewest steps that a verdict rests on end after about " +
           about(seconds_since(start_) + seconds) + ", beyond the budget of " +
           number_text(options_.budget_s) + " s");
}

void Examiner::train(TrainingRate& rate, const TurnTime& time) {
  rate.measure(trainer_, time, options_.stop);
  guard_.restore();
}

void Examiner::measure_with_workers(const TurnTime& time) {
  const auto loader = trainer_.make_loader(plan_, std::nullopt);
  std::jthread draining = start_thread([&loader](const std::stop_token& stop) {
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
  train(*with_workers_, time);
}

void Examiner::declare_tasks() {
  const auto add_level = [this](MeasuredLevel& level, bool is_essential) {
    const bool covers_all = !level.plan.cut;
    tasks_.push_back({level.plan.name + ", with training",
                      [this, &level, covers_all](const TurnTime& time) {
                        if (!covers_all) return train(level.training, time);
                        usage_.during([&] { train(level.training, time); });
                      },
                      &level.error, is_essential, covers_all ? kWholeWeight : 1,
                      [&level] { return level.training.rate(); }});
  };
  if (plan_.schedule.loader.num_workers >= kManyWorkers) {
    Plan half = plan_;
    half.schedule.loader.num_workers /= 2;
    half_.emplace(half, std::nullopt);
  }
  levels_.back().training.fill_cache_for(kFillShare * options_.budget_s);
  for (MeasuredLevel& level : levels_)
    if (level.plan.is_essential) add_level(level, true);
  tasks_.push_back({"nothing cached, loader alone",
                    [this](const TurnTime& time) {
                      all_->measure(trainer_, time, kFillShare * options_.budget_s, options_.stop);
                    },
                    &all_error_, pool_turn_s_ <= 0, kDrainedWeight, [this] { return all_->rate(); },
                    pool_turn_s_});
  if (half_)
    tasks_.push_back({"half of the workers, loader alone",
                      [this](const TurnTime& time) {
                        half_->measure(trainer_, time, kFillShare * options_.budget_s,
                                       options_.stop);
                      },
                      &half_error_, false, 1, [this] { return half_->rate(); }});
  for (MeasuredLevel& level : levels_)
    if (!level.plan.is_essential) add_level(level, false);
  for (MeasuredStep& step : device_)
    tasks_.push_back({step.name + " alone",
                      [this, &step](const TurnTime& time) { train(step.rate, time); }, &step.error,
                      false, 1, [&step] { return step.rate.rate(); }});
  for (MeasuredLevel& level : levels_)
    if (level.loader_alone)
      tasks_.push_back({level.plan.name + ", loader alone",
                        [this, &level](const TurnTime& time) {
                          level.loader_alone->measure(trainer_, time, 0, options_.stop);
                        },
                        &level.loader_alone_error, false, 1,
                        [&level] { return level.loader_alone->rate(); }});
  declare_tasks_of_device();
}

void Examiner::declare_tasks_of_device() {
  if (augment_)
    tasks_.push_back({"transforms on the device, alone",
                      [this](const TurnTime& time) { train(augment_->rate, time); },
                      &augment_->error, false, 1, [this] { return augment_->rate.rate(); }});
  if (jpeg_)
    tasks_.push_back(
        {"images as JPEG files, decoded by the device alone",
         [this](const TurnTime& time) { jpeg_->measure(trainer_, time, options_.stop); },
         &jpeg_error_, false, 1, [this] { return jpeg_->rate(); }});
  if (trainer_.context().kind() != DeviceKind::cuda) return;
  with_workers_.emplace(levels_.front().plan.how, levels_.front().plan.cut);
  tasks_.push_back({"device batch beside busy workers",
                    [this](const TurnTime& time) { measure_with_workers(time); },
                    &with_workers_error_, false, 1, [this] { return with_workers_->rate(); }});
}

void Examiner::attempt(Task& task, TurnTime time) {
  log_line(task.what);
  const auto start = Clock::now();
  time.step_s = known_step_s();
  if (&task == &tasks_.front())
    time.learned = [this](double step_s) {
      report_least_time(3 * step_s + (static_cast<double>(batches_to_cache()) + 1) * batch_s(),
                        "a step takes about " + about(step_s));
    };
  try {
    task.measure(time);
    const double passed = seconds_since(start);
    task.turn_s = task.turn_s > 0 ? std::min(task.turn_s, passed) : passed;
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    *task.error = describe_error(error);
    guard_.restore();
  }
}

/// The ceiling and the whole pipeline, where that is surely faster: the machine was slower while
/// one of both was measured.
std::vector<Task*> Examiner::doubtful() {
  const MeasuredLevel &ceiling = levels_.front(), &whole = levels_.back();
  if (!ceiling.training.is_measured() || !whole.training.is_measured()) return {};
  if (ratio(whole.training.rate(), ceiling.training.rate()).low <= 1) return {};
  std::vector<Task*> both;
  for (Task& task : tasks_)
    if (task.error == &ceiling.error || task.error == &whole.error) both.push_back(&task);
  return both;
}

Examination Examiner::run() {
  measure_one_worker();
  Examination examination;
  if (!one_->is_measured()) {
    examination.observed = declared();
  } else {
    measure_pool();
    report_least_time((2 * static_cast<double>(batches_to_cache()) + 1) * batch_s(),
                      "the loader takes about " + about(batch_s()) + " for a batch");
    declare_levels();
    declare_device();
    declare_tasks();
    measure_in_turns(tasks_,
                     {.budget_s = options_.budget_s,
                      .left = [this] { return left(); },
                      .stopped = [this] { return stopped(); },
                      .attempt = [this](Task& task, const TurnTime& time) { attempt(task, time); },
                      .doubtful = [this] { return doubtful(); }});
    examination.observed = observations();
    for (const MeasuredLevel& level : levels_)
      if (!level.plan.cut && level.training.is_measured())
        examination.lanes = level.training.last().lanes;
  }
  examination.interrupted = stopped();
  examination.seconds = seconds_since(start_);
  return examination;
}

Examination examine(Trainer& trainer, const Plan& plan, const DoctorOptions& options) {
  if (!(options.budget_s > 0)) throw Refused("the doctor's budget must be more than 0 seconds");
  return Examiner(trainer, plan, options).run();
}

}  // namespace slipstream
