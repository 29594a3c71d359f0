#include "doctor/examiner.h"

#include <algorithm>
#include <cmath>

#include "core/figures.h"
#include "core/number_text.h"
#include "doctor/free_memory.h"
#include "doctor/model_parts.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kFirstShare = 0.08;  ///< share of the budget for one worker alone
constexpr double kPoolShare = 0.03;   ///< share for all workers, before caches are sized
constexpr double kLastShare = 0.05;   ///< share of the budget for work after the turns
constexpr double kWholeWeight = 4;    ///< weight of "nothing cached", on which most results depend
constexpr double kDrainedWeight = 2;
constexpr unsigned kManyWorkers = 4;  ///< fewest that may slow each other down

/// Batches of each worker that a turn needs: one that is not counted, and four that give an
/// interval.
constexpr double kFewestPeriods = 5;
constexpr double kFewestCachedSteps = 6;  ///< of a turn with cached batches; two are not counted
constexpr double kBatchLevels = 2;        ///< levels of cached batches, at least
constexpr double kMargin = 1.5;           ///< proposed budget / estimated one

/// Is not a failed measurement, so it ends the examination.
class BudgetTooSmall : public Refused {
 public:
  using Refused::Refused;
};

TurnTime first_turn(double seconds) { return {seconds, 2 * seconds}; }

std::string about(double seconds) { return fixed(seconds, decimals_for(seconds, 2)) + " s"; }

}  // namespace

double Examiner::left() const { return (1 - kLastShare) * options_.budget_s - loop_.seconds(); }

/// Gives all workers their first turn before caches are sized, because the sizes depend on their
/// rate. An error is ignored here: it occurs again in the next turn, which reports it.
void Examiner::measure_all_workers() {
  all_ = loop_.loader_alone(WorkerCount::all);
  if (loop_.fills_cache() || all_.is_measured()) return;
  log_line("all workers");
  const double start_s = loop_.seconds();
  try {
    all_.measure(first_turn(kPoolShare * options_.budget_s));
    all_turn_s_ = loop_.seconds() - start_s;
  } catch (...) {
    loop_.take_failure();
  }
}

/// Samples/s, estimated from one worker if all of them were not measured.
double Examiner::rate_of_all_workers() const {
  if (all_.is_measured()) return all_.figure().value;
  return one_.figure().value * loop_.workers();
}

CacheSizes Examiner::decide_cache_sizes() const {
  return {loop_.sample_costs(),
          rate_of_all_workers(),
          loop_.batch_size(),
          {.budget_s = options_.budget_s,
           .free_bytes = static_cast<double>(free_memory_bytes()),
           .cpu_cache_bytes = static_cast<double>(last_level_cache_bytes())}};
}

/// Returns the seconds of a step at the ceiling, because no step is faster; 0 if not known yet.
double Examiner::known_step_s() const {
  const RateInTurns& device = levels_.front().training;
  return device.is_measured() ? 1 / device.figure().value : 0;
}

/// Returns the seconds of the shortest useful turns of the levels that a verdict needs: those of
/// cached batches, and nothing cached.
double Examiner::least_s(double step_s) const {
  const double batch_s = decide_cache_sizes().batch_s();
  const double batches = kFewestPeriods * std::max(1U, loop_.workers());
  // A turn with workers also starts them, which may take seconds for processes.
  const double start_s = std::max(0.0, all_turn_s_ - kPoolShare * options_.budget_s);
  const double of_batches_s = kBatchLevels * kFewestCachedSteps * step_s;
  return of_batches_s + start_s + batches * std::max(step_s, batch_s);
}

/// Throws Refused if these levels cannot be measured in the remaining time. `step_s`: seconds of a
/// training step; 0: not known yet.
void Examiner::refuse_small_budget(double step_s) const {
  const double needed_s = least_s(step_s);
  if (stopped() || needed_s <= left()) return;
  const double whole_s = (loop_.seconds() + needed_s) / (1 - kLastShare);
  std::string why = "a batch takes the loader about " + about(decide_cache_sizes().batch_s());
  if (step_s > 0) why += " and a training step about " + about(step_s);
  const double share = options_.budget_share;
  const double budget_s = std::round(1e3 * options_.budget_s / share) / 1e3;
  throw BudgetTooSmall("a budget of " + number_text(budget_s) +
                       " s is too small: a verdict takes at least about " + about(whole_s) +
                       ", because " + why + "; give a budget of " +
                       number_text(std::ceil(kMargin * whole_s / share)) + " s");
}

void Examiner::declare_task(const std::string& what, const RateInTurns& rate, std::string& error,
                            double weight, bool is_essential) {
  if (rate.measure)
    tasks_.push_back(
        {what, rate.measure, &error, is_essential, weight, rate.figure, 0, rate.restart});
}

void Examiner::declare_levels(bool are_essential) {
  for (ExaminedLevel& each : levels_)
    if (each.is_essential == are_essential)
      declare_task(each.level.name + ", with training", each.training, each.level.error,
                   &each == &levels_.back() ? kWholeWeight : 1, are_essential);
}

void Examiner::declare_tasks() {
  declare_levels(true);
  const auto alone = [](const ExaminedLevel& each) { return each.level.name + ", loader alone"; };
  ExaminedLevel& whole = levels_.back();
  whole.loader_alone = all_;
  declare_task(alone(whole), all_, whole.level.loader_alone_error, kDrainedWeight,
               !all_.is_measured());
  tasks_.back().turn_s = all_turn_s_;  // measure_all_workers() was this task's first turn
  if (loop_.workers() >= kManyWorkers) {
    half_ = loop_.loader_alone(WorkerCount::half);
    declare_task("half of the workers, loader alone", half_, half_error_);
  }
  declare_levels(false);
  for (OtherRate& other : others_) declare_task(other.what, other.rate, other.error);
  for (ExaminedLevel& each : levels_)
    if (&each != &whole)
      declare_task(alone(each), each.loader_alone, each.level.loader_alone_error);
}

void Examiner::attempt(Task& task, TurnTime time) {
  log_line(task.what);
  const double start_s = loop_.seconds();
  time.step_s = known_step_s();
  // The first task measures the ceiling, which is the first time that the length of a step is
  // known.
  const bool is_first = &task == &tasks_.front() && !task.is_attempted();
  if (is_first) time.learned = [this](double step_s) { refuse_small_budget(step_s); };
  try {
    task.measure(time);
    if (is_first) refuse_small_budget(known_step_s());
    const double passed_s = loop_.seconds() - start_s;
    task.turn_s = task.turn_s > 0 ? std::min(task.turn_s, passed_s) : passed_s;
  } catch (const BudgetTooSmall&) {
    throw;
  } catch (...) {
    *task.error = loop_.take_failure();
  }
}

/// Returns the ceiling if a level that does more work is certainly faster, and nullptr otherwise.
/// The ceiling is measured first, when the machine may not have reached its usual speed yet.
Task* Examiner::doubtful() {
  const RateInTurns& ceiling = levels_.front().training;
  if (!ceiling.is_measured()) return nullptr;
  const Measured limit = ceiling.figure();
  const auto is_faster = [&](const ExaminedLevel& level) {
    return level.training.is_measured() && ratio(level.training.figure(), limit).low > 1;
  };
  if (std::none_of(levels_.begin() + 1, levels_.end(), is_faster)) return nullptr;
  return &tasks_.front();
}

Observations Examiner::run() {
  log_line("one worker alone");
  one_ = loop_.loader_alone(WorkerCount::one);
  one_.measure(first_turn(kFirstShare * options_.budget_s));
  if (!one_.is_measured()) return loop_.describe();
  refuse_small_budget(0);
  measure_all_workers();
  refuse_small_budget(0);
  sizes_ = decide_cache_sizes();
  levels_ = loop_.make_levels(*sizes_);
  others_ = loop_.make_other_rates(*sizes_);
  declare_tasks();
  measure_in_turns(tasks_,
                   {.budget_s = options_.budget_s,
                    .left = [this] { return left(); },
                    .stopped = [this] { return stopped(); },
                    .attempt = [this](Task& task, const TurnTime& time) { attempt(task, time); },
                    .doubtful = [this] { return doubtful(); }});
  return observations();
}

Level Examiner::finished_level(const ExaminedLevel& examined) const {
  Level level = examined.level;
  if (examined.training.is_measured())
    level.with_training = examined.training.figure();
  else if (level.error.empty())
    level.error = stopped() ? "interrupted" : "no steady step was seen; raise the budget";
  if (examined.loader_alone.is_measured())
    level.loader_alone = scaled(examined.loader_alone.figure(),
                                1 / static_cast<double>(loop_.batch_size()), "steps/s");
  return level;
}

Observations Examiner::observations() {
  Observations observed = loop_.describe();
  observed.capacity = loop_.capacity(observed.situation.cores);
  for (const ExaminedLevel& each : levels_) observed.levels.push_back(finished_level(each));
  const Level &ceiling = observed.levels.front(), &whole = observed.levels.back();
  if (!stopped() && !ceiling.with_training && !whole.with_training)
    throw Error("neither the ceiling nor the whole loop could be measured: " + ceiling.error);
  if (all_.is_measured()) observed.rate_of_all_workers = all_.figure();
  if (loop_.workers() > 0) observed.rate_of_one_worker = one_.figure();
  if (half_.is_measured()) observed.rate_of_half_of_workers = half_.figure();
  loop_.add_findings(observed);
  const auto add_missing = [&](const std::string& what, const std::string& error) {
    if (!error.empty()) observed.warnings.push_back("not measured: " + what + ": " + error);
  };
  add_missing("half of the workers, loader alone", half_error_);
  for (const OtherRate& other : others_)
    if (other.is_expected) add_missing(other.what, other.error);
  return observed;
}

}  // namespace slipstream
